"""Rasters of the REST API against zoneinfo and PostgreSQL, 1970 to 2037.

Arguments: address of Millrace's HTTP listener, URL of a PostgreSQL. Prints each difference, and fails if there is one.
"""

import bisect
import datetime
import json
import sys
import urllib.parse
import urllib.request
from zoneinfo import ZoneInfo

import psycopg

ZONES = [
    "Europe/Vienna", "Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Santiago",
    "Australia/Adelaide", "Africa/Casablanca", "Asia/Tehran", "America/Sao_Paulo", "Pacific/Apia",
    "Europe/Moscow", "Asia/Kathmandu",
]
UTC = datetime.timezone.utc
QUARTER = 900
FIRST, LAST = 0, int(datetime.datetime(2038, 1, 1, tzinfo=UTC).timestamp())
differences = 0


def differ(what, ours, theirs):
    global differences
    differences += 1
    print(f"{what}: Millrace {ours}, expected {theirs}")


def request(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(f"http://{HTTP}{path}", data=data, method=method)
    with urllib.request.urlopen(call) as reply:
        text = reply.read()
        return json.loads(text) if text else None


def points(series, since, until, **parameters):
    query = {"from": text_of(since), "to": text_of(until), **parameters}
    path = f"/repositories/default/timeseries/{urllib.parse.quote(series, safe='')}/data?{urllib.parse.urlencode(query)}"
    return [point["From"] for point in request("GET", path)["Data"]]


def text_of(seconds):
    return datetime.datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text):
    return int(datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def local(seconds, zone):
    """What the clock shows, in seconds, as if it were UTC."""
    at = datetime.datetime.fromtimestamp(seconds, zone)
    return seconds + int(at.utcoffset().total_seconds())


def transitions(zone):
    """Times at which the offset changes. No zone of the list changes twice within a day."""
    found, step = [], 86400
    for day in range(FIRST - 1000 * step, LAST + 100 * step, step):
        low, high = day, day + step
        before = local(low, zone) - low
        if local(high, zone) - high == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if local(middle, zone) - middle == before:
                low = middle
            else:
                high = middle
        found.append(high)
    return found


def first_moment(shown, zone, changes):
    """The first time at which the clock shows a local time, or skips it."""
    naive = datetime.datetime.fromtimestamp(shown, UTC).replace(tzinfo=None)
    first = int(naive.replace(tzinfo=zone, fold=0).timestamp())
    if local(first, zone) == shown:
        return first
    # The clock skips it: the change that does is the last one with an earlier local time before it.
    at = bisect.bisect_right(changes, first + 86400)
    return next(change for change in reversed(changes[:at]) if local(change - 1, zone) < shown < local(change, zone))


def calendar_points(step, day_start):
    """Local times at which days, weeks, months, quarters and years would start."""
    day = datetime.date(1968, 1, 1)
    while day < datetime.date(2038, 3, 1):
        months = {"Month": 1, "Quarter": 3, "Year": 12}.get(step)
        starts = step == "Day" or (step == "Week" and day.weekday() == 0)
        if starts or (months and day.day == 1 and (day.month - 1) % months == 0):
            yield int(datetime.datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) + day_start
        day += datetime.timedelta(days=1)


def overlapping(starts, since, until):
    """Starts of the intervals that overlap with a range."""
    starts = sorted(set(starts))
    ends = starts[1:] + [starts[-1] + 400 * 86400]
    return [start for start, end in zip(starts, ends) if end > since and start < until]


def check_calendar(name, zone, changes):
    for step in ["Day", "Week", "Month", "Quarter", "Year"]:
        for calendar, day_start in [(name, 0), (f"{name} 06:00", 6 * 3600)]:
            wanted = overlapping(
                [first_moment(shown, zone, changes) for shown in calendar_points(step, day_start)], FIRST, LAST)
            ours = [seconds_of(text) for text in points(name, FIRST, LAST, interval=step, timeZone=calendar)]
            for theirs in sorted(set(wanted) ^ set(ours)):
                differ(f"{calendar}, {step}", text_of(theirs) if theirs in ours else None,
                       text_of(theirs) if theirs in wanted else None)
            if len(set(ours)) != len(ours) or ours != sorted(ours):
                differ(f"{calendar}, {step}", "not ascending", "ascending")


def check_clock(name, zone, changes):
    """Quarter hours and hours around each change of the clock, and the letters of repeated times."""
    for change in changes:
        since, until = change - change % QUARTER - 43200, change - change % QUARTER + 43200
        for step, width in [("Minute", QUARTER), ("Hour", 3600)]:
            expected = []
            for at in range(since - 7200, until, QUARTER):
                now, before = local(at, zone), local(at - 1, zone) + 1
                floor = now - now % width
                if floor == now or (now != before and before <= floor < now):
                    expected.append(at)
            expected = [at for at in expected if at >= max(start for start in expected if start <= since)]
            multiplier = width // 900 * 15 if step == "Minute" else 1
            ours = [seconds_of(text) for text in
                    points(name, since, until, interval=step, intervalMultiplier=multiplier)]
            if ours != expected:
                for at in sorted(set(ours) ^ set(expected)):
                    differ(f"{name}, {step} near {text_of(change)}", at in ours, at in expected)
        texts = points(name, since, until, interval="Minute", intervalMultiplier=15, stamps="local")
        for text, at in zip(texts, range(since, until, QUARTER)):
            clock = datetime.datetime.fromtimestamp(at, zone)
            other = clock.replace(fold=1 - clock.fold)
            is_twice = other.utcoffset() != clock.utcoffset() and local(int(other.timestamp()), zone) == local(at, zone)
            expected = clock.strftime("%Y-%m-%dT%H:%M:%S") + ("AB"[clock.fold] if is_twice else "")
            if text != expected:
                differ(f"{name}, stamp of {text_of(at)}", text, expected)


def check_postgres(name, connection):
    """The clock of PostgreSQL shows one date from the start to the end of each day, and another one before."""
    starts = [seconds_of(text) for text in points(name, FIRST, LAST, interval="Day")]
    rows = connection.execute(
        "SELECT start, days.date::text, before.date::text, last.date::text FROM unnest(%s::bigint[], %s::bigint[]) "
        "AS day (start, next), LATERAL (SELECT (to_timestamp(start) AT TIME ZONE %s)::date) AS days (date), "
        "LATERAL (SELECT ((to_timestamp(start) - interval '1 us') AT TIME ZONE %s)::date) AS before (date), "
        "LATERAL (SELECT ((to_timestamp(next) - interval '1 us') AT TIME ZONE %s)::date) AS last (date) "
        "WHERE before.date >= days.date OR last.date <> days.date",
        [starts[:-1], starts[1:], name, name, name])
    for start, date, before, last in rows:
        differ(f"{name}, day from {text_of(start)}", date, f"PostgreSQL shows {before} before and {last} at its end")


HTTP, POSTGRES = sys.argv[1:3]
with psycopg.connect(POSTGRES) as connection:
    for name in ZONES:
        zone = ZoneInfo(name)
        # A spontaneous series has a value from its time on, so that each raster has points.
        request("POST", "/repositories/default/timeseries", {"Name": name, "Type": "Spontaneous", "TimeZone": name})
        changes = transitions(zone)
        check_calendar(name, zone, changes)
        check_clock(name, zone, [change for change in changes if FIRST < change < LAST])
        check_postgres(name, connection)
        print(f"{name}: {len(changes)} changes of the clock")
print(f"{differences} differences")
sys.exit(differences > 0)
