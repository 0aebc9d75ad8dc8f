#!/usr/bin/env python3
"""Moves time series from HAKOM TSM to Millrace: reads a WebTSM service by REST, and writes to Millrace by REST.

docs/manual/moving-from-hakom.md says what is moved and what is not. The source is only read. Each step compares the target
with the source first and writes only differences, so that the script can be stopped and run again at any time.
"""

import argparse
import base64
import collections
import datetime
import getpass
import gzip
import http.client
import json
import math
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zoneinfo

EXAMPLES = """examples:
  move_from_hakom.py --source https://webtsm.example/api --user Max --repository Energy --target http://127.0.0.1:7480
  move_from_hakom.py … --name 'Meter%' --from 2020-01-01 --to 2026-01-01    some series, some years
  move_from_hakom.py … --history                                            earlier states of audited series, too
  move_from_hakom.py … --steps compare                                      compares and writes nothing
  move_from_hakom.py … --map Type:2=Begin --map Interval:3=Hour             numbers in the replies of the service

The password of --user is read from the environment variable HAKOM_PASSWORD, or asked for.
Exit status: 0 if source and target are equal, 1 if they differ, 2 after an error: run the script again to continue."""

MEMBERS = ("Type", "Interval", "Unit", "TimeZone", "Description", "Aggregation", "Audit", "Quotation",
           "QuotationBehaviour", "Formula", "Attributes")
UNIT_MEMBERS = ("Name", "BaseUnit", "Factor", "Offset", "IntegralUnit", "Aggregation", "Category", "ExchangeSeries")
ATTRIBUTE_TYPES = ("Text", "Number", "Date", "YesOrNo", "TimeSeries", "Node")
# Letters and numbers in HAKOM's published examples. Others are given by --map.
KNOWN = {"Type": {"A": "Begin", "E": "End", "S": "Spontaneous"}, "Interval": {"0": "No", "1": "Second", "2": "Minute"}}
STEP_SECONDS = {"Millisecond": 0.001, "Second": 1, "Minute": 60, "Hour": 3600}
HISTORY = " (history)"
MISSING = (None, 19)
WINDOW_POINTS = 100_000
WRITE_POINTS = 50_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


class Failure(Exception):
    """An error that ends the script; its text is for the user."""


class Refused(Failure):
    """A reply with a status from 400 to 499."""


# Points of one series that source and target have in common.
# - label: for messages. name: of the series in the target.
# - read, read_target: parameters of the requests. windows: ranges of times.
# - version: version that is written, or None.
# - rule: "values" writes and deletes; "state" writes, and a null in place of a deletion; "nulls" writes only these nulls;
#   "formula" only compares.
Part = collections.namedtuple("Part", "label name read read_target windows version rule")


class Server:
    """A repository of a server."""

    def __init__(self, base, repository, user, password, maps):
        self.base, self.repository, self.maps = base.rstrip("/"), repository, maps
        self.path = f"/repositories/{quoted(repository)}"
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "Content-Type": "application/json",
                        **({"Authorization": f"Basic {login}"} if user else {})}
        self.keys = {}

    def call(self, method, path, body=None, query=None, headers=None, absent=()):
        """The reply as JSON; None if its status is one of `absent`. Tries again if the server is busy or cannot be reached."""
        url = self.base + path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {**self.headers, **(headers or {})}, method=method)
        for pause in (1, 4, None):
            try:
                with urllib.request.urlopen(request, timeout=600) as reply:
                    text = reply.read()
                    if reply.headers.get("Content-Encoding") == "gzip":
                        text = gzip.decompress(text)
                return json.loads(text, parse_constant=str) if text else None
            except urllib.error.HTTPError as error:
                if error.code in absent:
                    return None
                if error.code not in (429, 502, 503, 504) or pause is None:
                    text = error.read()
                    text = gzip.decompress(text) if error.headers.get("Content-Encoding") == "gzip" else text
                    kind = Refused if error.code < 500 else Failure
                    raise kind(f"{method} {url}: status {error.code}: {text.decode(errors='replace')[:2000]}") from None
            except (OSError, EOFError, http.client.HTTPException) as error:
                if pause is None:
                    raise Failure(f"{method} {url}: {getattr(error, 'reason', error)}") from None
            except ValueError as error:
                raise Failure(f"{method} {url}: the reply is not JSON: {error}") from None
            time.sleep(pause)

    def search(self, pattern, page):
        """All definitions whose names match a pattern, by name."""
        found = {}
        while True:
            headers = {"Range": f"timeseries={len(found)}-{len(found) + page - 1}"}
            query = {"name": pattern} if pattern else None
            part = self.call("GET", f"{self.path}/timeseries", query=query, headers=headers, absent=(416,)) or []
            if not all(isinstance(one, dict) and "Name" in one for one in part):
                raise Failure(f"{self.base}{self.path}/timeseries: expected a list of definitions, got {str(part)[:500]}")
            new = [one for one in part if one["Name"] not in found]
            for one in new:
                # A reply with some members only is completed.
                if "Type" not in one:
                    one = self.call("GET", f"{self.path}/timeseries/{quoted(str(one['ID']))}")
                found[one["Name"]] = one
            if not new or len(part) < page:
                return found

    def series(self, name):
        """Path of a series."""
        return f"{self.path}/timeseries/{quoted(str(self.keys.get(name, name)))}"

    def points(self, name, window, is_spontaneous, query):
        """Values and flags by time in nanoseconds. A missing value is a point only if the series is spontaneous."""
        limits = {"from": text_of(window[0]), "to": text_of(window[1]), "format": "timestamp"}
        reply = self.call("GET", f"{self.series(name)}/data", query={**limits, **query})
        if not isinstance(reply, dict) or not isinstance(reply.get("Data"), list):
            raise Failure(f"{self.base}{self.series(name)}/data: expected the member Data, got {str(reply)[:500]}")
        points = {}
        for point in reply["Data"]:
            if not isinstance(point, dict) or "From" not in point:
                raise Failure(f"{self.base}{self.series(name)}/data: expected a point with From, got {str(point)[:500]}")
            value, flag = point.get("Value"), self.known("Flag", point.get("Flag", 9), int)
            value = float(value) if isinstance(value, (int, float)) else value
            # HAKOM replies 0 where it has no value.
            if flag == 19 and value == 0:
                value = None
            if is_spontaneous or (value, flag) != MISSING:
                points[instant(point["From"])] = (value, flag)
        return points

    def write(self, name, points, version):
        """Writes points, at most 50,000 by one request."""
        query = {"quotation": version} if version else None
        times = sorted(points)
        for at in range(0, len(times), WRITE_POINTS):
            data = [{"From": text_of(one), "Value": points[one][0], "Flag": points[one][1]}
                    for one in times[at:at + WRITE_POINTS]]
            self.call("PUT", f"{self.series(name)}/data", {"Data": data}, query)

    def delete(self, name, runs, version):
        """Deletes the points of runs of times."""
        exact = {"quotation": version, "exactQuotation": "true"} if version else {}
        for first, last in runs:
            self.call("DELETE", f"{self.series(name)}/data", query={"from": text_of(first), "to": text_of(last + 1), **exact})

    def known(self, member, value, kind=str):
        """A value of a reply by --map; an error if it is then of another type."""
        value = self.maps.get(member, {}).get(str(value), value)
        if kind is int and isinstance(value, str) and value.lstrip("-").isdigit():
            value = int(value)
        if not isinstance(value, kind):
            raise Failure(f"{member} {value!r} of the source is not known: name what it means, --map {member}:{value}=…")
        return value


def quoted(text):
    return urllib.parse.quote(text, safe="")


def instant(text):
    """Nanoseconds since 1970 of a time with an offset."""
    found = TIME.fullmatch(text)
    if not found:
        raise Failure(f'time "{text}": expected a form such as 2025-01-01T00:00:00Z, with Z or an offset')
    day, clock, fraction, offset = found.groups()
    since = datetime.datetime.fromisoformat(f"{day}T{clock}{'+00:00' if offset == 'Z' else offset}") - EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "0").ljust(9, "0"))


def text_of(time_ns):
    seconds, fraction = divmod(time_ns, 10**9)
    text = (EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{fraction:09}Z" if fraction else f"{text}Z"


def by_time(member, value_of):
    """A member that is a value, or an object of values by time: times in UTC, no empty object."""
    if not isinstance(member, dict):
        return value_of(member)
    values = {text_of(instant(key)): value_of(value) for key, value in member.items()}
    return values if any(value is not None for value in values.values()) else None


def definition_of(found, server, names):
    """The members of a definition that Millrace has. A service that replies in another form is adapted here.

    - names: names of series by number, for formulas that refer to numbers.
    """
    interval = found.get("Interval") or {}
    own = {member: found.get(member) for member in MEMBERS}
    own["Name"] = found["Name"]
    own["Type"] = server.known("Type", found.get("Type"))
    step = server.known("Interval", interval.get("Value", "No")).capitalize()
    own["Interval"] = {"Value": step, "Multiplier": interval.get("Multiplier") or 1}
    if own["Type"] == "Spontaneous":
        own["Interval"] = {"Value": "No", "Multiplier": 1}
    own["Unit"] = found.get("Unit") or "none"
    own["TimeZone"] = server.known("TimeZone", found.get("TimeZone") or "") or "UTC"
    own["Audit"], own["Quotation"] = bool(found.get("Audit")), bool(found.get("Quotation"))
    for member in ("Aggregation", "QuotationBehaviour"):
        own[member] = server.known(member, found.get(member) or "")
    own["Description"] = found.get("Description") or ""
    own["Formula"] = by_time(found.get("Formula"), lambda text: named_references(text, names) if text else None) or ""
    attributes = found.get("Attributes") or {}
    if not isinstance(attributes, dict):
        raise Failure(f"Attributes {str(attributes)[:500]}: expected an object of values by names; adapt the function "
                      "definition_of, or leave the member out: --without Attributes")
    attributes = {name: by_time(value, attribute_text) for name, value in attributes.items()}
    own["Attributes"] = {name: value for name, value in attributes.items() if value is not None}
    return own


def attribute_text(value):
    return value if value is None or isinstance(value, str) else json.dumps(value)


def named_references(formula, names):
    """A formula with names in place of numbers of the source, which the target does not have."""
    def named(found):
        name = names.get(found[1])
        return found[0] if name is None or found[1] in names.values() else '["' + name.replace('"', '""') + '"'
    return re.sub(r"\[\s*(\d+)(?=\s*[,\]])", named, formula)


def differing(own, other):
    """Names of the members in which two definitions differ, apart from blanks, quotes and capitals in some of them."""
    def plain(definition, member):
        value = definition[member]
        is_loose = member in ("Type", "Aggregation", "QuotationBehaviour", "Formula")
        return re.sub(r'[\s"\\]', "", json.dumps(value)).lower() if is_loose else value
    return [member for member in MEMBERS if plain(own, member) != plain(other, member)]


def unit_of(found):
    own = {member: found.get(member) or None for member in UNIT_MEMBERS}
    return {**own, "BaseUnit": own["BaseUnit"] or own["Name"], "Factor": found.get("Factor", 1.0) or 1.0,
            "Offset": found.get("Offset", 0.0) or 0.0, "Aggregation": own["Aggregation"] or "AVG"}


def move_units(source, target, problems, with_rates):
    """Writes units after those that they need. Exchange series exist later than the units: they are set by `with_rates`."""
    there = {one["Name"]: unit_of(one) for one in target.call("GET", f"{target.path}/units")}
    found = source.call("GET", f"{source.path}/units", absent=(404, 405)) or []
    waiting = {one["Name"]: unit_of(one) for one in found}
    rates = {one["Name"] for one in found if "ExchangeSeries" in one}
    while waiting:
        ready = [name for name, unit in waiting.items()
                 if not (({unit["BaseUnit"], unit["IntegralUnit"]} - {name}) & waiting.keys())] or list(waiting)
        for name in ready:
            unit = waiting.pop(name)
            before = there.get(name)
            kept = ["Category"] if unit["Category"] is None else []
            if not with_rates or name not in rates:
                kept.append("ExchangeSeries")
            unit.update({member: before and before[member] for member in kept})
            if unit == before:
                continue
            try:
                target.call("POST", f"{target.path}/units", unit)
                print(f'unit "{name}" is {"changed" if before else "created"}')
            except Refused as error:
                problems.append(f'unit "{name}" is not moved: {error}')


def create_needed(source, target, wanted):
    """Creates the attributes of the source, and units that are only names."""
    found = source.call("GET", f"{source.path}/attributes", absent=(404, 405)) or []
    kinds = {name: None for own in wanted.values() for name in own["Attributes"]}
    kinds.update((one["Name"], one.get("Type")) for one in found)
    names = {one["Name"] for one in target.call("GET", f"{target.path}/attributes")}
    for name in sorted(kinds.keys() - names):
        kind = source.maps.get("AttributeType", {}).get(str(kinds[name]), kinds[name])
        # HAKOM's service does not check values by type.
        kind = kind if kind in ATTRIBUTE_TYPES else "Text"
        target.call("POST", f"{target.path}/attributes", {"Name": name, "Type": kind})
    units = {one["Name"] for one in target.call("GET", f"{target.path}/units")}
    for unit in sorted({own["Unit"] for own in wanted.values()} - units):
        # HAKOM lets a series have a unit that is not defined.
        target.call("POST", f"{target.path}/units", {"Name": unit})


def move_definitions(source, target, wanted, there, problems, options):
    """Creates units, attributes and series, then formulas, or changes those that differ."""
    problems_of_units = []
    move_units(source, target, problems_of_units, False)
    create_needed(source, target, wanted)
    changed = {name: own for name, own in wanted.items() if name not in there or differing(own, there[name])}

    def store(name):
        body = {member: value for member, value in changed[name].items() if member != "Attributes"}
        if name not in there:
            body = {member: value for member, value in body.items() if value not in (None, "")}
        of_series(name, target.call, "POST", f"{target.path}/timeseries", [body], {"existing": "change"})

    for name, own in changed.items():
        if not own["Formula"]:
            store(name)
    move_units(source, target, problems_of_units, True)
    problems.extend(dict.fromkeys(problems_of_units))
    # A formula waits for those that it refers to.
    errors, before = {name: "" for name, own in changed.items() if own["Formula"]}, None
    while errors and len(errors) != before:
        waiting, before, errors = list(errors), len(errors), {}
        for name in waiting:
            try:
                store(name)
            except Refused as error:
                errors[name] = f"{error}"
    problems.extend(f"the formula is not moved: {error}" for error in errors.values())
    # Attributes may name series.
    for name, own in changed.items():
        before = there[name]["Attributes"] if name in there else {}
        if name not in errors and own["Attributes"] != before:
            attributes = {**dict.fromkeys(before), **own["Attributes"]}
            of_series(name, target.call, "PUT", target.series(name), {"Attributes": attributes})
    for name, own in wanted.items() if options.history else ():
        if has_history(own) and name + HISTORY not in there:
            state = {member: own[member] for member in ("Type", "Interval", "Unit", "TimeZone", "Aggregation")}
            described = f'Earlier states of "{name}": versions are the times of its changes in HAKOM TSM'
            state.update(Name=name + HISTORY, Quotation=True, Description=described)
            of_series(name, target.call, "POST", f"{target.path}/timeseries", [state], {"existing": "change"})
    print(f"definitions: {len(wanted)} series, {len(changed) - len(errors)} written")


def of_series(name, function, *arguments):
    """Calls a function, and adds the name of a series to its errors."""
    try:
        return function(*arguments)
    except Failure as error:
        raise type(error)(f'series "{name}": {error}') from None


def has_history(own):
    return own["Audit"] and not own["Quotation"] and not own["Formula"] and own["Interval"]["Value"] != "No"


def windows_of(own, options):
    """Ranges of times that start with a day of the series: a year, or less if it has more than some 100,000 intervals."""
    zone, _, hour = own["TimeZone"].partition(" ")
    try:
        zone = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        zone = datetime.timezone.utc
    clock = datetime.time.fromisoformat(hour.strip() or "00:00")

    def start(day):
        since = datetime.datetime.combine(day, clock, zone) - EPOCH
        return (since.days * 86_400 + since.seconds) * 10**9

    interval = own["Interval"]
    seconds = {"No": 600}.get(interval["Value"], STEP_SECONDS.get(interval["Value"], 86_400) * interval["Multiplier"])
    longest = WINDOW_POINTS * seconds
    day, found = options.start, []
    while day < options.end:
        if seconds >= 86_400:
            after = options.end
        elif longest >= 366 * 86_400 and not (own["Quotation"] and options.horizon is not None):
            after = datetime.date(day.year + 1, 1, 1)
        elif longest >= 31 * 86_400:
            after = (day.replace(day=1) + datetime.timedelta(days=32)).replace(day=1)
        else:
            after = day + datetime.timedelta(days=1)
        after = min(after, options.end)
        hour_ns = 3600 * 10**9 if seconds < 0.5 else start(after) - start(day)
        found += [(at, min(at + hour_ns, start(after))) for at in range(start(day), start(after), hour_ns)]
        day = after
    return found


def parts_of(source, own, options, problems):
    """The parts of a series, in the order in which they are written."""
    name, windows = own["Name"], windows_of(own, options)
    if own["Formula"]:
        return [Part("", name, {}, {}, windows, None, "formula")]
    path = source.series(name)
    if own["Quotation"]:
        versions = source.call("GET", f"{path}/data/quotations", absent=(404, 405))
        if versions is None:
            problems.append(f'series "{name}": its versions are not moved: the source does not list them')
        parts = []
        for version in sorted(map(time_of, versions or []), key=instant):
            own_windows = windows
            if options.horizon is not None:
                near, at = options.horizon * 86_400 * 10**9, instant(version)
                own_windows = [(start, end) for start, end in windows if start <= at + near and end >= at - near]
            read = {"quotation": version, "exactQuotation": "true"}
            parts.append(Part(f", version {version}", name, read, read, own_windows, version, "values"))
            # A version may take a value back: it has a null where an older version has a value.
            read = {"quotation": version}
            parts.append(Part(f", state of version {version}", name, read, read, own_windows, version, "nulls"))
        return parts
    is_kept = options.history and has_history(own)
    parts = []
    for change in source.call("GET", f"{path}/data/modifications") or [] if is_kept else []:
        stamp, touched = time_of(change), windows
        if isinstance(change, dict) and "From" in change and "To" in change:
            first, last = instant(change["From"]), instant(change["To"])
            touched = [(start, end) for start, end in windows if start < last and end > first]
        parts.append(Part(f", state of {stamp}", name + HISTORY, {"audit": stamp}, {"quotation": stamp}, touched, stamp, "state"))
    parts.sort(key=lambda part: instant(part.version))
    return [*parts, Part("", name, {}, {}, windows, None, "values")]


def time_of(item):
    """The time of a change or version: the item itself, or its member Time."""
    found = item.get("Time") if isinstance(item, dict) else item
    if not isinstance(found, str):
        raise Failure(f"{str(item)[:500]}: expected a time, or an object with the member Time")
    return text_of(instant(found))


def both(source, target, own, part, window):
    """Points of source and target."""
    is_spontaneous = own["Interval"]["Value"] == "No"
    return (source.points(own["Name"], window, is_spontaneous, part.read),
            target.points(part.name, window, is_spontaneous, part.read_target))


def move_values(source, target, own, options, problems):
    """Writes the points of a series that differ; returns the number of its points, and of those that were written."""
    count, written = 0, 0
    for part in parts_of(source, own, options, problems):
        for window in part.windows if part.rule != "formula" else ():
            ours, theirs = both(source, target, own, part, window)
            changed = {at: point for at, point in ours.items() if theirs.get(at) != point}
            gone = [at for at in theirs if at not in ours]
            if part.rule != "values":
                changed = {**(changed if part.rule == "state" else {}), **dict.fromkeys(gone, MISSING)}
            else:
                target.delete(part.name, runs_of(gone, ours), part.version)
            target.write(part.name, changed, part.version)
            count, written = count + (len(ours) if part.rule != "nulls" else 0), written + len(changed)
            if sys.stderr.isatty():
                print(f'\r  "{own["Name"]}"{part.label}: until {text_of(window[1])}\033[K\r', end="", file=sys.stderr)
    return count, written


def runs_of(gone, ours):
    """First and last times of those that are gone, with none of ours between them."""
    runs, is_run = [], False
    for at, is_gone in sorted([*((at, True) for at in gone), *((at, False) for at in ours)]):
        if is_gone and is_run:
            runs[-1] = (runs[-1][0], at)
        elif is_gone:
            runs.append((at, at))
        is_run = is_gone
    return runs


def compare_values(source, target, own, options, problems):
    """Adds the differences of a series to `problems`; returns the number of its points."""
    count = 0
    for part in parts_of(source, own, options, []):
        sides, sums, first, differences = [0, 0], [[], []], None, 0
        for window in part.windows:
            pair = both(source, target, own, part, window)
            for side, points in enumerate(pair):
                sides[side] += len(points)
                sums[side].append(math.fsum(value for value, _ in points.values() if isinstance(value, float)))
            for at in sorted(pair[0].keys() | pair[1].keys()):
                points = [points.get(at, MISSING) for points in pair]
                if not is_same(*points, part.rule == "formula") or (at in pair[0]) != (at in pair[1]):
                    first, differences = first or (at, *points), differences + 1
        count += sides[0] if part.rule != "nulls" else 0
        if differences:
            at, own_point, other = first
            problems.append(
                f'series "{own["Name"]}"{part.label}: source {sides[0]} values, sum {math.fsum(sums[0])!r}; target {sides[1]} '
                f"values, sum {math.fsum(sums[1])!r}; {differences} differ, the first at {text_of(at)}: value and flag are "
                f"{own_point} and {other}")
    return count


def is_same(own, other, is_computed):
    """Whether points are equal. Computed values may be rounded in another way."""
    (value, flag), (other_value, other_flag) = own, other
    if is_computed and isinstance(value, float) and isinstance(other_value, float):
        return flag == other_flag and math.isclose(value, other_value, rel_tol=1e-9, abs_tol=1e-12)
    return own == other


def search_both(source, target, options):
    """Definitions of the source, and of the target, by name."""
    found = source.search(options.name, options.page)
    names = {str(one["ID"]): name for name, one in found.items() if "ID" in one}
    # Services behind some web servers do not accept these characters in an address.
    source.keys = {names[key]: key for key in names if set("/\\%") & set(names[key]) and key not in found}
    left_out = dict.fromkeys(options.without)
    wanted = {name: of_series(name, definition_of, {**one, **left_out}, source, names) for name, one in found.items()}
    there = {name: definition_of(one, target, {}) for name, one in target.search(options.name, options.page).items()}
    return wanted, there


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    date = datetime.date.fromisoformat
    add("--source", required=True, metavar="URL", help="WebTSM service, up to /repositories")
    add("--target", required=True, metavar="URL", help="Millrace, such as http://127.0.0.1:7480")
    add("--user", help="user of the source; also recorded by the target as the user of the changes")
    add("--repository", default="default", help="repository of the source (default)")
    add("--into", default="default", metavar="REPOSITORY", help="repository of the target, created if it is missing (default)")
    add("--name", metavar="PATTERN", help="only series with such names; %% is any text, _ any character")
    add("--from", dest="start", type=date, default=datetime.date(2000, 1, 1), metavar="DATE", help="first day (2000-01-01)")
    add("--to", dest="end", type=date, default=datetime.date(datetime.date.today().year + 2, 1, 1), metavar="DATE",
        help="day after the last (1 January after next)")
    add("--horizon", type=int, metavar="DAYS", help="values of a version are at most so many days before or after its time")
    add("--history", action="store_true", help=f'moves earlier states of a series "P" as versions of a series "P{HISTORY}"')
    add("--steps", default="definitions,values,compare", help="steps to run (definitions,values,compare)")
    add("--map", action="append", default=[], metavar="MEMBER:VALUE=OTHER",
        help="OTHER in place of a VALUE of the source, for Type, Interval, TimeZone, Aggregation, QuotationBehaviour, Flag and AttributeType")
    add("--without", action="append", default=[], choices=("Aggregation", "Attributes", "Description", "QuotationBehaviour"),
        help="leaves a member of definitions out")
    add("--page", type=int, default=1000, help="definitions of one request (1000)")
    options = parser.parse_args()
    options.steps = options.steps.split(",")
    options.maps = {member: dict(values) for member, values in KNOWN.items()}
    for text in options.map:
        found = re.fullmatch(r"(\w+):([^=]*)=(.+)", text)
        if not found:
            parser.error(f"--map {text}: expected a form such as Type:2=Begin")
        options.maps.setdefault(found[1], {})[found[2]] = found[3]
    if unknown := set(options.steps) - {"definitions", "values", "compare"}:
        parser.error(f"--steps: {', '.join(sorted(unknown))}: expected definitions, values or compare")
    return options


def main():
    options = parsed()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
    password = os.environ.get("HAKOM_PASSWORD") or (getpass.getpass() if options.user else "")
    source = Server(options.source, options.repository, options.user or "", password, options.maps)
    target = Server(options.target, options.into, options.user or "move_from_hakom", "", {})
    if options.into not in {one["Name"] for one in target.call("GET", "/repositories")}:
        target.call("POST", "/repositories", {"Name": options.into})
    wanted, there = search_both(source, target, options)
    problems = []
    if "definitions" in options.steps:
        move_definitions(source, target, wanted, there, problems, options)
    if "values" in options.steps:
        for at, (name, own) in enumerate(wanted.items()):
            if not own["Formula"]:
                count, written = of_series(name, move_values, source, target, own, options, problems)
                print(f'[{at + 1}/{len(wanted)}] "{name}": {count:,} values, {written:,} written', flush=True)
    if "compare" in options.steps:
        wanted, there = search_both(source, target, options)
        count = 0
        for name, own in wanted.items():
            if name not in there:
                if not (own["Formula"] and problems):
                    problems.append(f'series "{name}" is not in the target')
                continue
            if members := differing(own, there[name]):
                problems.append(f'series "{name}": definitions differ in {", ".join(members)}')
            try:
                count += of_series(name, compare_values, source, target, own, options, problems)
            except Refused as error:
                if not own["Formula"]:
                    raise
                problems.append(f"the formula cannot be read: {error}")
        print(f"compared: {len(wanted)} series, {count:,} values")
    for problem in problems:
        print(f"difference: {problem}")
    if problems:
        print(f"differences: {len(problems)}")
    elif "compare" in options.steps:
        print("source and target are equal")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"error: {failure}\nRun the script again to continue.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped; run the script again to continue", file=sys.stderr)
        sys.exit(130)
