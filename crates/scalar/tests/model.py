"""Prints calls of the aggregates that PostgreSQL lacks, with the answers of a plain model: `model.py > time_series/model.tsv`.

A line has the form of `ask.py`'s files. Values are multiples of 1/4 and times whole seconds, so that sums are exact in any order.
"""

import json
import random
from datetime import datetime, timedelta, timezone
from fractions import Fraction

START = datetime(2026, 1, 1, tzinfo=timezone.utc)  # `iso` shows it in the zone of the tests, Los Angeles.
chance = random.Random(20261129)


def moment(seconds):
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S+00")


def field(value):
    if value is None:
        return "\\N"
    if isinstance(value, float):
        return "NaN" if value != value else repr(int(value)) if value == int(value) else repr(value)
    return str(value)


def greatest_at_each_time(points):
    """Points in order of time; NaN is greater than every number."""
    best = {}
    for time, value in points:
        rank = (value != value, value)
        if time not in best or rank > (best[time] != best[time], best[time]):
            best[time] = value
    return sorted(best.items())


def pairs(points):
    return list(zip(points, points[1:]))


def increase(points):
    return sum((later if later < value else later - value) for (_, value), (_, later) in pairs(points))


def seconds(points):
    return points[-1][0] - points[0][0]


def integral(points, method):
    def height(value, later):
        return value if method == "locf" else (value + later) / 2

    return sum(height(value, later) * (end - start) for (start, value), (end, later) in pairs(points))


def durations(points):
    found = {state: 0 for _, state in points}
    for (start, state), (end, _) in pairs(points):
        found[state] += end - start
    return found


def lttb(points, count):
    if len(points) <= count:
        return points
    buckets, inner = count - 2, len(points) - 2
    edges = [1 + at * inner // buckets for at in range(buckets + 1)] if buckets else []
    chosen = [points[0]]
    for at in range(buckets):
        following = points[edges[at + 1] : edges[at + 2]] if at + 1 < buckets else points[-1:]
        mean = [Fraction(sum(values)) / len(following) for values in zip(*following)]
        (t0, v0) = chosen[-1]
        area = lambda p: abs((mean[0] - t0) * Fraction(p[1] - v0) - (p[0] - t0) * (mean[1] - Fraction(v0)))
        chosen.append(max(points[edges[at] : edges[at + 1]], key=area))
    return [*chosen, points[-1]]


def candle(trades):
    """Trades are in the order in which they are read."""
    trades = [(t, p, v) for t, p, v in trades if t is not None and p is not None]
    if not trades:
        return None
    first, last = min(t for t, _, _ in trades), max(t for t, _, _ in trades)
    opening = next(trade for trade in trades if trade[0] == first)
    closing = next(trade for trade in reversed(trades) if trade[0] == last)
    high, low = max(p for _, p, _ in trades), min(p for _, p, _ in trades)
    at = lambda price: min(t for t, p, _ in trades if p == price)
    volume = sum(v for _, _, v in trades if v is not None)
    value = sum(p * v for _, p, v in trades if v is not None)
    iso = lambda t: (START + timedelta(seconds=t - 8 * 3600)).strftime("%Y-%m-%dT%H:%M:%S-08:00")
    found = {
        "open": opening[1], "high": high, "low": low, "close": closing[1], "volume": volume,
        "vwap": value / volume if volume else None, "open_time": iso(opening[0]), "high_time": iso(at(high)),
        "low_time": iso(at(low)), "close_time": iso(closing[0]),
    }  # fmt: skip
    return shown(found)


def shown(members):
    """An object as `jsonb` prints it."""
    ordered = sorted(members.items(), key=lambda member: (len(member[0].encode()), member[0].encode()))
    text = lambda value: field(float(value)) if isinstance(value, (int, float)) else json.dumps(value)
    return "{" + ", ".join(f"{json.dumps(name)}: {text(value)}" for name, value in ordered) + "}"


def call(signature, rows, answer):
    fields = "\t;\t".join("\t".join(field(value) for value in row) for row in rows)
    print("\t".join([signature, *([fields] if rows else []), field(answer)]))


def series(nulls=0.0, nans=0.0):
    """A counter with resets, shuffled, with equal times."""
    points, value = [], 0.0
    for _ in range(chance.choice([0, 1, 2, 3, 5, 20, 40])):
        value = value + chance.randrange(12) / 4 if chance.random() < 0.85 else chance.randrange(4) / 4
        points.append([chance.randrange(200), float("nan") if chance.random() < nans else value])
    if chance.random() < 0.3:
        points.sort()
    for point in points:
        if chance.random() < nulls:
            point[chance.randrange(2)] = None
    return [tuple(point) for point in points]


def counters():
    for number in range(36):
        points = series(nulls=0.1, nans=0.01 if number % 4 == 0 else 0.0)
        kept = greatest_at_each_time([(t, v) for t, v in points if t is not None and v is not None])
        timed = number % 3
        ty = ["timestamptz", "timestamp", "int8"][timed]
        time = lambda t: None if t is None else t if timed == 2 else moment(t)
        rows = [(v, time(t)) for t, v in points]
        total = float(increase(kept)) if kept else None
        length = seconds(kept) if kept else 0
        call(f"increase(float8,{ty})", rows, total)
        call(f"rate(float8,{ty})", rows, total / length if length else None)
        call(f"delta(float8,{ty})", rows, kept[-1][1] - kept[0][1] if kept else None)
        for method in ("locf", "linear"):
            area = float(integral(kept, method)) if kept else None
            given = [(*row, method) for row in rows]
            call(f"time_weighted_integral(float8,{ty},text)", given, area)
            call(f"time_weighted_average(float8,{ty},text)", given, area / length if length else None)
            if method == "locf":
                call(f"time_weighted_average(float8,{ty})", rows, area / length if length else None)
                call(f"time_weighted_integral(float8,{ty})", rows, area)


def states():
    for number in range(24):
        count = chance.choice([0, 1, 4, 40])
        points = [(chance.randrange(200), chance.choice(["idle", "on", "off", None])) for _ in range(count)]
        kept = [(t, s) for t, s in points if s is not None]
        found = durations(sorted({t: max(s for u, s in kept if u == t) for t, _ in kept}.items()))
        ty, time = ("int8", lambda t: t) if number % 2 else ("timestamptz", moment)
        call(f"state_durations(text,{ty})", [(s, time(t)) for t, s in points], shown(found) if kept else None)
        for wanted in ("idle", "none"):
            rows = [(wanted, s, time(t)) for t, s in points]
            call(f"duration_in(text,text,{ty})", rows, float(found.get(wanted, 0)) if kept else None)


def charts():
    for number in range(24):
        points = series()
        count = chance.choice([2, 3, 4, 7, 30])
        found = lttb(greatest_at_each_time(points), count)
        ty, time = ("int8", lambda t: t) if number % 2 else ("timestamptz", moment)
        rows = [(time(t), v, count) for t, v in points]
        call(f"lttb_values({ty},float8,int4)", rows, "{" + ",".join(field(v) for _, v in found) + "}" if found else None)
        if number % 2:
            call(f"lttb_times({ty},float8,int4)", rows, "{" + ",".join(str(t) for t, _ in found) + "}" if found else None)
            text = ", ".join(f'{{"time": {t}, "value": {field(v)}}}' for t, v in found)
            call(f"lttb({ty},float8,int4)", rows, f"[{text}]" if found else None)


def candles():
    for _ in range(24):
        count = chance.choice([0, 1, 3, 30])
        maybe = lambda value: None if chance.random() < 0.1 else value
        trade = lambda: (maybe(chance.randrange(40)), maybe(chance.randrange(80) / 4), maybe(chance.randrange(9) * 1.0))
        trades = [trade() for _ in range(count)]
        rows = [(None if t is None else moment(t), p, v) for t, p, v in trades]
        call("candlestick(timestamptz,float8,float8)", rows, candle(trades))
        both = [(p, v) for _, p, v in trades if p is not None and v is not None]
        volume = sum(v for _, v in both)
        call("vwap(float8,float8)", [(p, v) for _, p, v in trades], sum(p * v for p, v in both) / volume if volume else None)


def extremes():
    for _ in range(24):
        row = lambda: (chance.choice(["a", "b", "c", None]), chance.choice([None, 1.5, -2.0, 7.0, float("nan")]))
        rows = [row() for _ in range(chance.randrange(9))]
        keyed = [row for row in rows if row[1] is not None]
        rank = lambda row: (row[1] != row[1], row[1])
        for name, best in (("max_by", max), ("min_by", min)):
            call(f"{name}(text,float8)", rows, best(keyed, key=rank)[0] if keyed else None)
            call(f"arg_{name[:3]}(text,float8)", rows, best(keyed, key=rank)[0] if keyed else None)


def histograms():
    for _ in range(24):
        low, buckets = chance.randrange(-4, 4), chance.randrange(1, 8)
        width = chance.choice([0.25, 0.5, 1, 2])
        high = low + buckets * width
        values = [chance.choice([None, chance.randrange(-60, 60) / 8]) for _ in range(chance.randrange(40))]
        counts = [0] * (buckets + 2)
        for value in values:
            if value is not None:
                at = 0 if value < low else buckets + 1 if value >= high else int((value - low) // width) + 1
                counts[at] += 1
        answer = "{" + ",".join(map(str, counts)) + "}" if sum(counts) else None
        call("histogram(float8,float8,float8,int4)", [(v, float(low), float(high), buckets) for v in values], answer)


for part in (extremes, counters, states, candles, histograms, charts):
    part()
