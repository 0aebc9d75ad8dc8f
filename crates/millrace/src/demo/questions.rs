//! What the demo asks. Every statement runs as it stands in `millrace sql` or psql on the same directory.

/// A question and how it is put.
pub(super) struct Question {
    pub(super) title: &'static str,
    pub(super) sql: &'static str,
    /// What to see in the answer.
    pub(super) remark: Option<&'static str>,
}

/// All of them, in order.
pub(super) const ALL: &[Question] = &[
    Question {
        title: "1. Daily means: a week of Beijing air, by local days",
        sql: "\
SELECT time_bucket('1 day', time, 'Asia/Shanghai') AS day,
       round(avg(pm25), 1) AS pm25, round(avg(temp_c), 1) AS temp_c, count(pm25) AS hours
FROM air WHERE time >= '2013-01-08 00:00+08' AND time < '2013-01-15 00:00+08'
GROUP BY day ORDER BY day",
        remark: Some("Days begin at 16:00 UTC, midnight in Beijing."),
    },
    Question {
        title: "2. The worst hours of five years",
        sql: "\
SELECT time, pm25, temp_c, wind, wind_speed
FROM air WHERE pm25 IS NOT NULL ORDER BY pm25 DESC LIMIT 5",
        remark: None,
    },
    Question {
        title: "3. A gap at Newark, filled: five hours nobody reported",
        sql: "\
SELECT time_bucket_gapfill('1 hour', time) AS hour,
       avg(temp_f) AS measured, locf(avg(temp_f)) AS carried_on
FROM weather WHERE airport = 'EWR' AND time >= '2013-10-25 22:00Z' AND time < '2013-10-26 07:00Z'
GROUP BY hour ORDER BY hour",
        remark: None,
    },
    Question {
        title: "4. The latest reading of each device, the five hottest",
        sql: "\
SELECT device, max(time) AS at,
       last(temperature, time) AS temperature, last(pressure, time) AS pressure
FROM sensors GROUP BY device ORDER BY temperature DESC LIMIT 5",
        remark: None,
    },
    Question {
        title: "5. Days across a change of the clocks: New York, March 2013",
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
        sql: "\
SELECT device, count(*) AS readings,
       round(avg(power), 2) AS mean_power, max(vibration) AS worst_vibration
FROM sensors GROUP BY device ORDER BY mean_power DESC LIMIT 5",
        remark: None,
    },
];
