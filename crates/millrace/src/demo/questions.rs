//! The demo's queries. Each runs unchanged in `millrace sql` or psql on the same directory.

/// A question and its query.
pub(super) struct Question {
    pub(super) title: &'static str,
    /// Time zone of the output.
    pub(super) zone: &'static str,
    /// Statement to run before; usually empty.
    pub(super) before: &'static str,
    pub(super) sql: &'static str,
    /// Column to draw as a line of bars, and its unit.
    pub(super) chart: Option<(&'static str, &'static str)>,
    /// Remark about the result.
    pub(super) remark: Option<&'static str>,
}

/// All questions, in order.
pub(super) const ALL: &[Question] = &[
    Question {
        title: "1. Daily means: a week of Beijing air, by local days",
        zone: "Asia/Shanghai",
        before: "SET TimeZone = 'Asia/Shanghai';",
        sql: "\
SELECT time_bucket('1 day', time, 'Asia/Shanghai') AS day,
       round(avg(pm25)::numeric, 1) AS pm25, round(avg(temp_c)::numeric, 1) AS temp_c, count(pm25) AS hours
FROM air WHERE time >= '2013-01-08 00:00+08' AND time < '2013-01-15 00:00+08'
GROUP BY day ORDER BY day",
        chart: Some(("pm25", "µg/m³")),
        remark: Some("Days begin at midnight in Beijing, which is 16:00 UTC."),
    },
    Question {
        title: "2. The worst hours of five years",
        zone: "UTC",
        before: "",
        sql: "\
SELECT time, pm25, temp_c, wind, wind_speed
FROM air WHERE pm25 IS NOT NULL ORDER BY pm25 DESC LIMIT 5",
        chart: None,
        remark: None,
    },
    Question {
        title: "3. A gap at Newark, filled: five hours nobody reported",
        zone: "UTC",
        before: "",
        sql: "\
SELECT time_bucket_gapfill('1 hour', time) AS hour,
       avg(temp_f) AS measured, locf(avg(temp_f)) AS carried_on
FROM weather WHERE airport = 'EWR' AND time >= '2013-10-25 22:00Z' AND time < '2013-10-26 07:00Z'
GROUP BY hour ORDER BY hour",
        chart: None,
        remark: None,
    },
    Question {
        title: "4. The latest reading of each device, the five hottest",
        zone: "UTC",
        before: "",
        sql: "\
SELECT device, max(time) AS at,
       last(temperature, time) AS temperature, last(pressure, time) AS pressure
FROM sensors GROUP BY device ORDER BY temperature DESC LIMIT 5",
        chart: None,
        remark: None,
    },
    Question {
        title: "5. Days across a change of the clocks: New York, March 2013",
        zone: "America/New_York",
        before: "SET TimeZone = 'America/New_York';",
        sql: "\
SELECT time_bucket('1 day', time, 'America/New_York') AS day,
       count(*) AS hours, min(temp_f) AS coldest, max(temp_f) AS warmest
FROM weather WHERE airport = 'LGA'
  AND time >= '2013-03-09 00:00-05' AND time < '2013-03-12 00:00-04'
GROUP BY day ORDER BY day",
        chart: None,
        remark: Some("March 10 has 23 hours: the clocks went forward, from -05 to -04."),
    },
    Question {
        title: "6. The devices that drew the most power",
        zone: "UTC",
        before: "",
        sql: "\
SELECT device, count(*) AS readings,
       round(avg(power)::numeric, 2) AS mean_power, max(vibration) AS worst_vibration
FROM sensors GROUP BY device ORDER BY mean_power DESC LIMIT 5",
        chart: None,
        remark: None,
    },
    Question {
        title: "7. Orders with their readings: one transaction writes both, one statement joins both",
        zone: "UTC",
        before: "\
CREATE TABLE work_order (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, device text NOT NULL,
  what text NOT NULL, placed timestamptz NOT NULL, limit_celsius numeric(5, 2));
BEGIN;
INSERT INTO work_order (device, what, placed, limit_celsius) VALUES
  ('device-007', 'inspection', '2026-01-01 00:02:30.25Z', NULL),
  ('device-042', 'new bearing', '2026-01-01 00:03:00.5Z', 60.00);
INSERT INTO sensors (time, device, temperature, vibration) VALUES
  ('2026-01-01 00:03:00.5Z', 'device-042', 91.5, 14.2);
COMMIT;",
        sql: "\
SELECT o.id, o.device, o.what, s.temperature, s.temperature > o.limit_celsius AS too_hot,
       s.vibration, extract(epoch FROM o.placed - s.time) AS seconds
FROM work_order o ASOF JOIN sensors s ON s.device = o.device AND s.time <= o.placed
ORDER BY o.id",
        chart: None,
        remark: Some("An ordinary CREATE TABLE creates a rows table, in memory and durable: see the manual's rows.md."),
    },
];
