"""Checks that a server answers as its OpenAPI document says: python conformance.py http://127.0.0.1:7480 [--max-examples 20]

1. Scripted requests: the life of several series in a repository of their own. Each response must have the expected status and
   match the document.
2. Generated requests: schemathesis with one worker. Hooks turn most of them to the series of the first part, and to a short range
   of time, so that responses are small.

The server keeps the repository, some units and attributes, and random series: use a data directory that may be deleted.
Exit code 0 if all is well, 1 on a failure, 2 if the server cannot be reached.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import zlib
from pathlib import Path
from urllib.parse import quote

import requests
import schemathesis
from schemathesis import checks
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks as openapi_checks

HERE = Path(__file__).resolve().parent
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
REQUEST_TIMEOUT_S = 60
FROM, TO = "2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z"

CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# The content of the response before.
LAST = object()
# Ends a stream of Arrow.
ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"

R = "/repositories/{repository}"
S, ONE = f"{R}/timeseries", f"{R}/timeseries/{{id}}"
DATA, MANY = f"{ONE}/data", f"{R}/timeseriescollections/data"


def day(value=4.0):
    return {"Data": [{"From": f"2025-03-30T{hour:02}:{minute:02}:00Z", "Value": value, "Flag": 9}
                     for hour in range(20) for minute in (0, 15, 30, 45)]}


def quarters(name, **more):
    return {"Name": name, "Interval": {"Value": "Minute", "Multiplier": 15}, "Unit": "kW", "TimeZone": "Europe/Vienna", **more}


def checks_of(series):
    return {"Series": series, "Rules": [{"Rule": "Gap"}, {"Rule": "Range", "Min": 0, "Max": 4.5}, {"Rule": "Constant", "Intervals": 90},
                                        {"Rule": "Comparison", "Formula": "[this] - 1", "Max": 9}],
            "Substitutes": [{"Substitute": "Interpolation", "MaxIntervals": 2}, {"Substitute": "ReferenceDay"},
                            {"Substitute": "Formula", "Formula": "[this] / 2"}]}


def script(tag):
    """Requests: method, path, parameters of the path, query, headers, body, expected status."""
    attribute, unit = f"Supplier{tag}", f"unit{tag}"
    period = {"from": FROM, "to": TO}

    def call(expected, method, path, query=None, body=None, headers=None, **names):
        return expected, method, path, names, query or {}, headers or {}, body

    def write(query, body, media_type, path=DATA, expected=204, **names):
        return call(expected, "PUT", path, query, body, {"Content-Type": media_type}, **names)

    def create(name, **more):
        return call(201, "POST", S, body=quarters(name, **more))

    def read(query, expected=200, name="P"):
        return call(expected, "GET", DATA, query, id=name)

    def evaluate(formula, expected):
        return call(expected, "POST", f"{R}/formulas/evaluate", period, {"Interval": {"Value": "Hour"}, "Unit": "kWh", "Formula": formula})

    spontaneous = {"Name": "S", "Type": "Spontaneous", "Unit": "kW"}
    formula = {"2020-01-01T00:00:00Z": "[P, 0, kWh] * 2", "2025-01-01T00:00:00Z": "If([P] < 0, 0, [P])"}
    return [
        # Repositories, units and attributes.
        call(201, "POST", "/repositories", body={"Name": tag, "Description": "conformance"}),
        call(409, "POST", "/repositories", body={"Name": tag}),
        call(400, "POST", "/repositories", body={}),
        call(200, "GET", "/repositories"),
        call(200, "GET", f"{R}/units"),
        call(201, "POST", f"{R}/units", body={"Name": unit, "BaseUnit": "W", "Factor": 1.163, "IntegralUnit": "Wh"}),
        call(200, "PUT", f"{R}/units", body={"Name": unit, "BaseUnit": "W", "Factor": 2}),
        call(200, "PUT", f"{R}/units/{{name}}", body={"BaseUnit": "W", "Factor": 3, "Offset": None}, name=unit),
        call(400, "POST", f"{R}/units/{{name}}", body={"Name": "other"}, name=unit),
        call(400, "POST", f"{R}/units", body={"Name": "zero", "Factor": 0}),
        call(404, "POST", f"{R}/units", body={"Name": "x", "BaseUnit": "nothing"}),
        call(200, "GET", f"{R}/units/{{name}}", name="EUR/MWh"),
        call(404, "GET", f"{R}/units/{{name}}", name="nothing"),
        call(201, "POST", f"{R}/attributes", body={"Name": attribute, "Type": "Text", "Description": "text"}),
        call(409, "POST", f"{R}/attributes", body={"Name": attribute}),
        call(400, "POST", f"{R}/attributes", body={"Name": "a|b"}),
        call(200, "GET", f"{R}/attributes"),
        # Definitions.
        create("P", Audit=True),
        create("W"),
        create("C", Description="changes"),
        create("Q", Quotation=True, QuotationBehaviour="Max exact"),
        call(201, "POST", S, body=spontaneous),
        create("F", Unit="kWh", Formula=formula),
        call(409, "POST", S, body=quarters("P")),
        call(201, "POST", S, body=[quarters("L1"), {"Name": "L2", "Interval": {"Value": "Hour"}, "Unit": "kWh", "Formula": "[L1]"}]),
        call(201, "POST", S, {"existing": "change"}, "Name,Interval,Unit,Description\nL1,,,list\nL3,15 Minute,kW,\n", {"Content-Type": CSV}),
        call(409, "POST", S, body=[quarters("L4"), quarters("P")]),
        call(404, "GET", ONE, id="L4"),
        call(400, "POST", S, {"existing": "replace"}, quarters("L4")),
        call(200, "POST", f"{R}/units", {"format": "csv"}, f"Name;BaseUnit;Factor\n{unit}x;W;1,5\n", {"Content-Type": CSV}),
        # Lists as workbooks: what is read is written back.
        call(200, "GET", f"{R}/timeseriescollections/definition", {"name": ["L1", "L2"], "format": "xlsx"}),
        call(201, "POST", S, {"existing": "change"}, LAST, {"Content-Type": XLSX}),
        call(200, "GET", S, {"name": "L%"}, headers={"Accept": XLSX}),
        call(206, "GET", S, {"mediaType": "xlsx"}, headers={"Range": "timeseries=0-1"}),
        call(201, "POST", S, {"existing": "skip", "format": "xlsx"}, LAST, {"Content-Type": XLSX}),
        call(200, "GET", f"{R}/units", {"format": "xlsx"}),
        call(200, "POST", f"{R}/units", {}, LAST, {"Content-Type": XLSX}),
        call(400, "POST", S, {}, b"nothing", {"Content-Type": XLSX}),
        call(400, "POST", S, body={"Name": "X"}),
        call(400, "POST", S, body=quarters("X", Colour="red")),
        call(404, "POST", S, body={**quarters("X"), "Unit": "nothing"}),
        call(200, "GET", ONE, id="P"),
        call(404, "GET", ONE, id="nothing"),
        call(200, "GET", ONE, id="F"),
        call(200, "PUT", ONE, body={"Attributes": {attribute: {"2025-01-01T00:00:00Z": "North", "2199-01-01T00:00:00Z": None}}}, id="P"),
        call(200, "POST", ONE, body={"Description": "other", "Aggregation": "MAX"}, id="C"),
        call(404, "PUT", ONE, body={"Attributes": {"nothing": "x"}}, id="C"),
        call(409, "PUT", ONE, body={"Name": "P"}, id="C"),
        call(200, "GET", S),
        call(200, "GET", S, {"name": "%", "unit": "k_", "type": "Begin", "interval": "Minute", "attribute": [f"{attribute}|North"]}),
        call(206, "GET", S, headers={"Range": "timeseries=0-1"}),
        call(206, "GET", S, headers={"Range": "timeseries=1000-"}),
        call(400, "GET", S, headers={"Range": "nothing"}),
        call(400, "GET", S, {"type": "nothing"}),
        call(200, "GET", f"{R}/timeseriescollections/definition", {"name": ["W", "P", "W"]}),
        call(404, "GET", f"{R}/timeseriescollections/definition", {"name": ["nothing"]}),
        # Values.
        call(204, "PUT", DATA, body=day(), id="P"),
        call(204, "POST", DATA, {"format": "timestamp"}, day(5.0), id="W"),
        call(204, "PUT", DATA, {"quotation": "2025-01-01T06:00:00Z"}, day(), id="Q"),
        call(204, "PUT", DATA, body={**day(2.0), "Quotation": "2025-01-02T06:00:00Z"}, id="Q"),
        call(400, "PUT", DATA, body=day(), id="Q"),
        call(204, "PUT", DATA, body={"Data": [{"From": FROM, "Value": "NaN"}, {"From": "2025-03-30T12:00:00Z", "Value": "-Infinity"},
                                              {"From": "2025-03-30T14:00:00", "Value": None}]}, id="S"),
        call(204, "PUT", DATA, body={"Unit": "kWh", "TimeZone": "UTC", "Interval": {"Value": "Hour"},
                                     "Data": [{"From": "2025-03-30T01:00:00Z", "Value": 8, "Flag": 21}]}, id="P"),
        call(400, "PUT", DATA, body={"Data": [{"From": "2025-03-30T02:30:00", "Value": 1}]}, id="P"),
        call(400, "PUT", DATA, body={"Data": [{"From": FROM, "Value": 1, "Flag": 3}]}, id="P"),
        call(404, "PUT", DATA, body=day(), id="nothing"),
        read({}),
        read(period),
        *(read({**period, **query}) for query in (
            {"interval": "Day", "unit": "kWh"}, {"interval": "Total", "unit": "MWh"}, {"interval": "Minute", "intervalMultiplier": 5},
            {"aggregation": "MAX", "interval": "Hour"}, {"timeZone": "Asia/Kathmandu", "stamps": "offset"}, {"stamps": "local", "mediaType": "application/json"},
            {"asOf": "2199-01-01T00:00:00Z"}, {"audit": "2199-01-01T00:00:00Z"})),
        *(read({**period, **query}, name="Q") for query in (
            {}, {"quotation": "2025-01-01T07:00:00Z"}, {"quotation": "2025-01-01T06:00:00Z", "exactQuotation": "true"},
            {"quotationBefore": "2025-01-03T00:00:00Z", "exactQuotation": "true", "versions": 2}, {"quotationBefore": "2025-01-03T00:00:00Z"})),
        # Encodings: what is read is written back.
        *(request for query, headers, media_type in (
            ({"format": "csv"}, {}, CSV), ({"stamps": "local"}, {"Accept": CSV}, CSV), ({"mediaType": "arrow"}, {}, ARROW), ({}, {"Accept": ARROW}, ARROW),
            ({"format": "xlsx"}, {}, XLSX), ({"timeZone": "Europe/Vienna"}, {"Accept": XLSX}, XLSX))
          for request in (
              call(200, "GET", DATA, {**period, **query}, headers=headers, id="P"), write({}, LAST, media_type, id="W"),
              call(200, "GET", MANY, {**period, "name": ["P", "C"], **query}, headers=headers), write({"atomic": "true"}, LAST, media_type, MANY),
          )),
        write({"interval": "Hour", "unit": "MWh", "timeZone": "Europe/Vienna"}, "\ufeffvalue;from\r\n1,5;2025-03-30T04:00:00\r\n", CSV, id="W"),
        write({}, "Time,Value\n", CSV, expected=400, id="W"),
        write({}, b"nothing", ARROW, expected=400, id="W"),
        write({}, b"nothing", XLSX, expected=400, id="W"),
        call(200, "GET", DATA, {**period, "interval": "Hour"}, headers={"Accept": "text/html, */*"}, id="S"),
        read({**period, "format": "xml"}, 400),
        read({}, name="S"),
        read({**period, "interval": "Hour"}, name="S"),
        read(period, name="F"),
        read({}, 400, "F"),
        read({**period, "unit": "K"}, 400),
        read({**period, "unit": "nothing"}, 404),
        read({**period, "exactAudit": "true"}, 400),
        read({**period, "asOf": FROM}, 400, "W"),
        read({"from": "1700-01-01", "to": "2200-01-01", "interval": "Millisecond"}, 413),
        call(200, "GET", f"{DATA}/modifications", id="P"),
        call(404, "GET", f"{DATA}/modifications", id="nothing"),
        call(200, "GET", f"{DATA}/quotations", id="Q"),
        call(200, "GET", f"{DATA}/quotations", id="P"),
        # A series that has values keeps its raster.
        call(409, "PUT", ONE, body={"Interval": {"Value": "Hour"}}, id="W"),
        # Collections and formulas.
        call(200, "GET", MANY, {**period, "name": ["P", "S", "Q"], "interval": "Hour"}),
        call(200, "GET", MANY, {**period, "name": ["P", "P"]}),
        call(400, "GET", MANY, period),
        call(404, "GET", MANY, {**period, "name": ["nothing"]}),
        call(204, "PUT", MANY, body=[{"Name": "W", **day()}]),
        call(207, "PUT", MANY, body=[{"Name": "W", **day()}, {"Name": "nothing", **day()}]),
        call(404, "POST", MANY, {"atomic": "true"}, [{"Name": "W", **day()}, {"Name": "nothing", **day()}]),
        call(200, "GET", f"{MANY}/sum", {**period, "name": ["P", "W"], "interval": "Hour", "unit": "kWh"}),
        call(200, "GET", f"{MANY}/sum", {**period, "attribute": f"{attribute}|North"}),
        call(400, "GET", f"{MANY}/sum", {**period, "attribute": f"{attribute}|South"}),
        evaluate("[P, 0, kWh] * 2", 200),
        evaluate("[P] +", 400),
        evaluate("[nothing]", 404),
        # Periods.
        call(200, "GET", f"{R}/periods"),
        call(200, "PUT", f"{R}/holidays/{{name}}", body=[{"Date": "2025-03-31", "Name": "A day off"}, {"Date": "2025-04-01"}], name=tag),
        call(200, "GET", f"{R}/holidays/{{name}}", name=tag),
        call(400, "PUT", f"{R}/holidays/{{name}}", body=[{"Date": "tomorrow"}], name=tag),
        call(200, "POST", f"{R}/periods", body={"Name": tag, "Days": "Mon-Fri", "From": "08:00", "To": "20:00", "Holidays": tag}),
        call(200, "PUT", f"{R}/periods", body={"Name": f"{tag}x", "Inverse": True}),
        call(400, "POST", f"{R}/periods", body={"Name": tag, "From": "20:00", "To": "08:00"}),
        read({**period, "period": tag, "interval": "Day"}),
        read({**period, "period": "nothing"}, 404),
        call(204, "DELETE", f"{R}/periods/{{name}}", name=f"{tag}x"),
        call(404, "DELETE", f"{R}/periods/{{name}}", name=f"{tag}x"),
        # Validations.
        call(204, "PUT", f"{R}/validations/{{name}}", body=checks_of(["P", "W"]), name="Meters"),
        call(204, "POST", f"{R}/validations/{{name}}", body={**checks_of(["W"]), "Schedule": {"Every": {"Value": "Day"}, "Back": {"Value": "Week"}}},
             name="Daily"),
        call(400, "PUT", f"{R}/validations/{{name}}", body={"Series": ["P"], "Rules": []}, name="Meters"),
        call(200, "GET", f"{R}/validations/{{name}}", name="Meters"),
        call(404, "GET", f"{R}/validations/{{name}}", name="nothing"),
        call(200, "GET", f"{R}/validations"),
        call(200, "POST", f"{R}/validate", period, checks_of(["P"])),
        call(200, "POST", f"{R}/validate", period, {"Attribute": f"{attribute}|North", "Rules": [{"Rule": "Jump", "Max": 1}]}),
        call(404, "POST", f"{R}/validate", period, checks_of(["nothing"])),
        call(400, "POST", f"{R}/validate", {"from": FROM}, checks_of(["P"])),
        call(400, "POST", f"{R}/validate", period, checks_of(["S"])),
        call(200, "POST", f"{R}/validations/{{name}}/run", {**period, "apply": "true"}, name="Meters"),
        call(200, "GET", f"{R}/validations/{{name}}/runs", name="Meters"),
        call(204, "DELETE", f"{R}/validations/{{name}}", name="Daily"),
        call(404, "DELETE", f"{R}/validations/{{name}}", name="Daily"),
        # Deletions.
        call(409, "DELETE", ONE, id="P"),
        call(409, "DELETE", f"{R}/attributes/{{name}}", name=attribute),
        call(409, "DELETE", f"{R}/units/{{name}}", name="kW"),
        call(204, "DELETE", DATA, period, id="W"),
        call(204, "DELETE", DATA, {**period, "quotation": "2025-01-01T06:00:00Z", "exactQuotation": "true"}, id="Q"),
        call(400, "DELETE", DATA, id="W"),
        call(204, "DELETE", f"{R}/units/{{name}}", name=unit),
        call(404, "DELETE", f"{R}/units/{{name}}", name=unit),
        call(404, "DELETE", f"{R}/attributes/{{name}}", name="nothing"),
        create("D"),
        call(204, "DELETE", ONE, id="D"),
        call(404, "DELETE", ONE, id="D"),
    ]


def problems(response, query, headers, path):
    """Encodings that are not those of the request, and other failures that a schema cannot describe."""
    if response.status_code != 200 or path not in (DATA, MANY):
        return
    wanted = query.get("mediaType") or query.get("format") or headers.get("Accept", "")
    wanted = next((media_type for name, media_type in (("csv", CSV), ("arrow", ARROW), ("xlsx", XLSX), (XLSX, XLSX)) if name in wanted), "application/json")
    found = response.headers["content-type"][0]
    if found != wanted:
        yield f"content type {found}, expected {wanted}"
    elif wanted == CSV:
        line = "Name,From,Value,Flag" if path == MANY else "From,Value,Flag"
        if response.text.splitlines()[:1] != [line]:
            yield f"the first line is not {line}: {response.text[:100]}"
    elif wanted == ARROW:
        if not response.content.startswith(ARROW_END[:4]) or not response.content.endswith(ARROW_END):
            yield "the body is not a stream of Arrow"
    elif wanted == XLSX:
        if not response.content.startswith(b"PK\x03\x04"):
            yield "the body is not a workbook"
    elif path == MANY and query.get("name") == ["P", "P"]:
        first, second = response.json()
        if first != second:
            yield "a series that is named twice has two results"


def run_script(schema, base, tag):
    """Sends the scripted requests. Returns their number and the failures."""
    functions = [checks.not_a_server_error, openapi_checks.status_code_conformance, openapi_checks.content_type_conformance,
                 openapi_checks.response_schema_conformance, openapi_checks.response_headers_conformance]
    requests_of_script, failures, reached = script(tag), [], set()
    for expected, method, path, names, query, headers, body in requests_of_script:
        operation = schema[path][method]
        reached.add(operation.label)
        if "{repository}" in path:
            names = {"repository": tag, **names}
        # schemathesis encodes only what it generates.
        names = {name: quote(value, safe="") for name, value in names.items()}
        media_type = headers.get("Content-Type", "application/json")
        given = {} if body is None else {"body": response.content if body is LAST else body, "media_type": media_type}
        case = operation.Case(path_parameters=names, query=query, headers=headers, **given)
        shown = f"{method} {path.format(**names)} {query or ''} {headers or ''} {str(body or '')[:200]}"
        response = case.call(base_url=base, timeout=REQUEST_TIMEOUT_S)
        if response.status_code != expected:
            failures.append(f"{shown}\n    status {response.status_code}, expected {expected}: {response.text[:300].strip()}")
        failures.extend(f"{shown}\n    {problem}" for problem in problems(response, query, headers, path))
        try:
            case.validate_response(response, checks=functions)
        except FailureGroup as group:
            failures.extend(f"{shown}\n    {failure.title}: {failure.message[:600]}" for failure in group.exceptions)
    unreached = sorted({result.ok().label for result in schema.get_all_operations()} - reached)
    failures.extend(f"{label}\n    no scripted request" for label in unreached)
    return len(requests_of_script), failures


def run_generated(arguments, tag):
    """Runs schemathesis with the hooks of this module. Returns its exit code."""
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", arguments.document, "--url", arguments.base, "--workers", "1",
        "--checks", ",".join(CHECKS), "--phases", arguments.phases, "--max-examples", str(arguments.max_examples),
        "--seed", str(arguments.seed), "--continue-on-failure", "--max-failures", "100", "--request-timeout", str(REQUEST_TIMEOUT_S),
        "--suppress-health-check", "all", "--generation-database", "none", "--warnings", "off", "--no-color", "--no-shrink",
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "conformance", "CONFORMANCE_TAG": tag,
                   "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, cwd=HERE, env=environment, check=False).returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base", help="address of the server, such as http://127.0.0.1:7480")
    parser.add_argument("--max-examples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phases", default="examples,fuzzing",
                        help="coverage sends some 4,700 requests more, whatever --max-examples is")
    arguments = parser.parse_args()
    arguments.base = arguments.base.rstrip("/")
    tag = f"c{int(time.time())}"
    arguments.document = f"{arguments.base}/tsm/v1/openapi.json"
    try:
        requests.get(arguments.document, timeout=REQUEST_TIMEOUT_S).raise_for_status()
    except requests.RequestException as error:
        print(f"conformance: {arguments.base} cannot be reached: {error}", file=sys.stderr)
        return 2
    count, failures = run_script(schemathesis.openapi.from_url(arguments.document), arguments.base, tag)
    for failure in failures:
        print(f"FAILED {failure}")
    code = run_generated(arguments, tag)
    generated = "passed" if code == 0 else f"failed (exit code {code})"
    print(f"conformance: {count} scripted requests, {len(failures)} failures; generated requests {generated}; repository {tag}, seed {arguments.seed}")
    return 1 if failures or code else 0


# Hooks of the generated requests.

TAG = os.environ.get("CONFORMANCE_TAG")
TIME = re.compile(r"\d{4}")
STARTS = [FROM, "2025-03-30T01:00:00+01:00", "2025-03-30", "2025-03-30T03:15:00"]
ENDS = [TO, "2025-03-30T20:00:00+02:00", "2025-03-31", "2025-03-30T09:30:00"]


def chosen(case, values, salt):
    """One of the values, the same for the same case."""
    text = f"{salt}{case.method}{case.path}{case.path_parameters}{case.query}{case.body!r:.2000}"
    return values[zlib.crc32(text.encode("utf-8", "replace")) % len(values)]


def steer(case):
    """Turns most cases to series that exist, and all to a short range."""
    names, query = case.path_parameters, case.query
    if names and chosen(case, [True] * 9 + [False], "repository"):
        names["repository"] = TAG
    # Values with any time are written to W only, which nothing reads: a series with values of centuries has long responses.
    if names and names.get("id") in ("P", "Q", "S", "F") and case.method != "GET":
        names["id"] = "W"
    elif names and "id" in names and chosen(case, [True] * 8 + [False] * 2, "id"):
        if case.method == "GET":
            names["id"] = chosen(case, ["P", "Q", "S", "F"], "series")
        elif case.path == DATA:
            names["id"] = "W"
        elif case.method in ("PUT", "POST"):
            names["id"] = "C"
            if isinstance(case.body, dict) and isinstance(case.body.get("Name"), str):
                case.body["Name"] = "C"
    if isinstance(query, dict):
        for name, times in (("from", STARTS), ("to", ENDS)):
            if isinstance(query.get(name), str) and TIME.search(query[name]):
                query[name] = chosen(case, times, name)
        # The example of the document has parameters that exclude each other.
        if chosen(case, [True, False], "exclusive"):
            for first, second in (("audit", "asOf"), ("quotation", "quotationBefore"), ("attribute", "name"), ("attribute", "id")):
                if first in query and second in query and "/timeseries" not in case.path.removeprefix(S):
                    del query[second]
        if case.path.startswith(MANY) and isinstance(query.get("name"), list) and chosen(case, [True] * 4 + [False], "names"):
            query["name"] = [["P", "C", "S", "Q"][at % 4] for at in range(len(query["name"]))] or ["P"]
            query.pop("id", None)
    if case.path == MANY and isinstance(case.body, list):
        for at, data in enumerate(case.body):
            if isinstance(data, dict) and isinstance(data.get("Name"), str):
                data["Name"] = "W" if at == 0 else f"nothing{at}"


@schemathesis.serializer(CSV, ARROW, XLSX)
def points_as_bytes(context, value):
    data = getattr(value, "data", value)
    return data if isinstance(data, bytes) else str(data).encode("utf-8", "replace")


@schemathesis.deserializer(CSV, ARROW, XLSX)
def points_as_text(context, response):
    return response.content.decode("utf-8", "replace")


if TAG:
    @schemathesis.hook
    def before_call(context, case, **kwargs):
        steer(case)


if __name__ == "__main__":
    sys.exit(main())
