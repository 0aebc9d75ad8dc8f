//! What the demo asks. Every statement runs as it stands in `millrace sql` or psql on the same directory.

/// A question and how it is put.
pub(super) struct Question {
    pub(super) title: &'static str,
    /// What is done before; empty for most.
    pub(super) before: &'static str,
    pub(super) sql: &'static str,
    /// What to see in the answer.
    pub(super) remark: Option<&'static str>,
}

/// All of them, in order.
pub(super) const ALL: &[Question] = &[
    Question {
        title: "1. Daily means: a week of Beijing air, by local days",
        before: "",
        sql: "\
SELECT time_bucket('1 day', time, 'Asia/Shanghai') AS day,
       round(avg(pm25), 1) AS pm25, round(avg(temp_c), 1) AS temp_c, count(pm25) AS hours
FROM air WHERE time >= '2013-01-08 00:00+08' AND time < '2013-01-15 00:00+08'
GROUP BY day ORDER BY day",
        remark: Some("Days begin at 16:00 UTC, midnight in Beijing."),
    },
    Question {
        title: "2. The worst hours of five years",
        before: "",
        sql: "\
SELECT time, pm25, temp_c, wind, wind_speed
FROM air WHERE pm25 IS NOT NULL ORDER BY pm25 DESC LIMIT 5",
        remark: None,
    },
    Question {
        title: "3. A gap at Newark, filled: five hours nobody reported",
        before: "",
        sql: "\
SELECT time_bucket_gapfill('1 hour', time) AS hour,
       avg(temp_f) AS measured, locf(avg(temp_f)) AS carried_on
FROM weather WHERE airport = 'EWR' AND time >= '2013-10-25 22:00Z' AND time < '2013-10-26 07:00Z'
GROUP BY hour ORDER BY hour",
        remark: None,
    },
    Question {
        title: "4. The latest reading of each device, the five hottest",
        before: "",
        sql: "\
SELECT device, max(time) AS at,
       last(temperature, time) AS temperature, last(pressure, time) AS pressure
FROM sensors GROUP BY device ORDER BY temperature DESC LIMIT 5",
        remark: None,
    },
    Question {
        title: "5. Days across a change of the clocks: New York, March 2013",
        before: "",
        sql: "\
SELECT time_bucket('1 day', time, 'America/New_York') AS day,
       count(*) AS hours, min(temp_f) AS coldest, max(temp_f) AS warmest
FROM weather WHERE airport = 'LGA'
  AND time >= '2013-03-09 00:00-05' AND time < '2013-03-12 00:00-04'
GROUP BY day ORDER BY day",
        remark: Some("March 10 has 23 hours, and the days after it begin an hour earlier in UTC."),
    },
    Question {
        title: "6. The devices that drew the most power",
        before: "",
        sql: "\
SELECT device, count(*) AS readings,
       round(avg(power), 2) AS mean_power, max(vibration) AS worst_vibration
FROM sensors GROUP BY device ORDER BY mean_power DESC LIMIT 5",
        remark: None,
    },
    Question {
        title: "7. Orders beside their readings: one transaction writes both, one statement joins both",
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
        remark: Some(
            "An ordinary CREATE TABLE makes a table of rows, in memory and durable: see the manual's rows.md.",
        ),
    },
];
