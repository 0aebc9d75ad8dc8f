"""A service whose replies have the forms that HAKOM's manual shows: hakom_service.py; prints its port.

Types and steps are numbers, a formula refers to a number, times have an offset, a missing value is 0 with the flag 19, a
search ignores the header Range, and there is no list of versions.
"""

import base64
import datetime
import http.server
import json
import urllib.parse

UTC = datetime.timezone.utc
VIENNA = datetime.timezone(datetime.timedelta(hours=1))
START = datetime.datetime(2025, 1, 1, 12, tzinfo=UTC)
LOGIN = "Basic " + base64.b64encode("Max:Mustermann123".encode()).decode()


def definition(number, name, **more):
    return {"ID": number, "Name": name, "Description": None, "Type": 2, "Interval": {"Value": 2, "Multiplier": 15},
            "Unit": "KWh", "TimeZone": "W. Europe Standard Time", "Quotation": False, "Audit": False, "Compressed": True,
            "Table": "T1", "ExchangeTimeSeries": [], "Formula": None, **more}


SERIES = [
    definition(7, "Data/TimeSeries", Attributes={"Documentation_Attribute": {
        "2017-04-01T00:00:00Z": "Text1", "2017-04-02T00:00:00Z": "Text2"}}),
    definition(8, "Formula_TimeSeries", Formula={"1970-01-01T00:00:00Z": "[7]*2"}),
]
UNITS = [{"ID": 4, "Name": "MW", "Factor": 1e6, "Offset": 0.0, "BaseUnit": "W", "Aggregation": "AVG", "IntegralUnit": "MWh",
          "Description": None, "Category": None},
         {"ID": 9, "Name": "BTU/h", "Factor": 0.29307107, "Offset": 0.0, "BaseUnit": "W", "Aggregation": "AVG",
          "IntegralUnit": "Wh", "Description": "Heat", "Category": None}]


def data(parts, query):
    factor = 2 if parts[-2] == "Formula_TimeSeries" else 1
    time, end = (datetime.datetime.fromisoformat(query[name][0].replace("Z", "+00:00")) for name in ("from", "to"))
    points = []
    while time < end:
        at = int((time - START).total_seconds()) // 900
        is_there = 0 <= at < 50 and at != 20
        points.append({"From": time.astimezone(VIENNA).isoformat(), "Value": at * factor if is_there else 0,
                       "Flag": (21 if at == 3 else 9) if is_there else 19})
        time += datetime.timedelta(minutes=15)
    return {"Interval": {"Value": 1, "Multiplier": 900}, "Unit": "KWh", "Data": points}


class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")]
        query = urllib.parse.parse_qs(url.query)
        status, reply = 404, {"Message": "No HTTP resource was found"}
        if self.headers.get("Authorization") != LOGIN:
            status, reply = 401, {"Message": "Authorization has been denied for this request."}
        elif parts[-1] == "timeseries":
            status, reply = 200, SERIES
        elif parts[-1] == "units":
            status, reply = 200, UNITS
        elif parts[-1] == "data" and parts[-2] in ("7", "Formula_TimeSeries"):
            status, reply = 200, data(parts, query)
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
print(server.server_port, flush=True)
server.serve_forever()
