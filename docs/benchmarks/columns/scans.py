#!/usr/bin/env python3
"""GROUP BYs over the events of WSO2's Smart Home sample: Millrace, DuckDB and ClickHouse on the same rows, one after the other.

    scans.py MILLRACE [ROWS]    the built program, and the number of rows (50 million)

Needs psql, and the packages duckdb and chdb (`cargo xtask tools --peers` creates a Python with them). Prints for each query the
best time of five, rows per CPU second, and whether all answers were the same; then bytes per row.
"""

import math
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

import duckdb
from chdb import session as chdb

QUESTIONS = {
    "cityUsage": "SELECT metro_area, avg(power_reading), min(power_reading), max(power_reading) FROM e GROUP BY metro_area ORDER BY metro_area",
    "peakDeviceUsageRange": "SELECT house_id, max(power_reading) - min(power_reading) FROM e WHERE is_peak AND metro_area = 'Seattle' GROUP BY house_id ORDER BY house_id",
    "stateAvgUsage": "SELECT state, avg(power_reading) FROM e GROUP BY state ORDER BY state",
    "houses by hour": "SELECT house_id, BUCKET, max(power_reading) FROM e GROUP BY house_id, BUCKET ORDER BY 1, 2",
    "filtered count": "SELECT count(*) FROM e WHERE power_reading > 950",
    "count": "SELECT count(*) FROM e",
}
BUCKETS = {
    "millrace": "time_bucket('1 hour', time)",
    "duckdb": "time_bucket(INTERVAL '1 hour', time::TIMESTAMP)",
    "clickhouse": "toStartOfHour(time)",
}
METROS = ["New York", "Los Angeles", "Chicago", "Dallas", "Miami", "Salt Lake City", "Seattle", "Phoenix", "San Francisco", "Indianapolis"]
STATES = ["New York", "California", "Illinois", "Texas", "Florida", "Utah", "Washington", "Arizona", "California", "Indiana"]


def make(path, rows):
    """One event per millisecond from 2015 on, with the distributions of the sample's agent."""
    duckdb.connect().execute(
        f"""SET threads = 2; SELECT setseed(0.5);
        COPY (SELECT make_timestamptz(1420070400000000 + i * 1000) AS time, (1 + floor(random() * 21))::INT AS house_id,
              {METROS}[m] AS metro_area, {STATES}[m] AS state, (1 + floor(random() * 7))::INT AS device_id,
              (random() * (1 + floor(random() * 10)) * 100)::FLOAT AS power_reading, random() < 0.5 AS is_peak
              FROM (SELECT i, (1 + floor(random() * 10))::INT AS m FROM range({rows}) t(i)))
        TO '{path}' (FORMAT parquet)"""
    )


def own_cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def bytes_in(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


class DuckDb:
    name = "duckdb"

    def __init__(self, folder, parquet, _program):
        self.path = os.path.join(folder, "duck.db")
        self.connection = duckdb.connect(self.path)
        self.connection.execute("SET threads = 2; SET TimeZone = 'UTC'")
        self.connection.execute(f"CREATE TABLE e AS SELECT * FROM '{parquet}'")
        self.connection.execute("CHECKPOINT")

    cpu = staticmethod(own_cpu)

    def bytes(self):
        return os.path.getsize(self.path)

    def ask(self, sql):
        started = time.monotonic()
        rows = self.connection.execute(sql).fetchall()
        return time.monotonic() - started, rows

    def stop(self):
        self.connection.close()


class ClickHouse:
    name = "clickhouse"

    def __init__(self, folder, parquet, _program):
        self.path = os.path.join(folder, "chdb")
        self.session = chdb.Session(self.path)
        self.session.query("CREATE DATABASE d ENGINE = Atomic; ")
        self.session.query(
            "CREATE TABLE d.e (time DateTime64(6, 'UTC'), house_id Int32, metro_area LowCardinality(String), state LowCardinality(String), "
            "device_id Int32, power_reading Float32, is_peak Bool) ENGINE = MergeTree ORDER BY time"
        )
        self.session.query(f"INSERT INTO d.e SELECT * FROM file('{parquet}', Parquet)")
        self.session.query("OPTIMIZE TABLE d.e FINAL")

    cpu = staticmethod(own_cpu)

    def bytes(self):
        text = str(self.session.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'e'", "CSV"))
        return int(text)

    def ask(self, sql):
        sql = sql.replace(" FROM e", " FROM d.e") + " SETTINGS max_threads = 2"
        started = time.monotonic()
        text = str(self.session.query(sql, "TSV"))
        return time.monotonic() - started, [line.split("\t") for line in text.splitlines()]

    def stop(self):
        self.session.close()


class Millrace:
    name = "millrace"

    def __init__(self, folder, parquet, program):
        self.path = os.path.join(folder, "millrace")
        ports = [free_port() for _ in range(4)]
        self.port = ports[0]
        listen = sum(([flag, f"127.0.0.1:{port}"] for flag, port in zip(["--pg", "--http", "--health", "--flight"], ports)), [])
        log = open(os.path.join(folder, "millrace.log"), "w", encoding="utf-8")
        command = [program, "serve", "--data", self.path, "--files", os.path.dirname(parquet), *listen]
        self.server = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(200):
            if subprocess.run(self.psql("SELECT 1"), capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        self.run(
            "CREATE TABLE e (time timestamptz NOT NULL, house_id int, metro_area text, state text, device_id int, "
            "power_reading real, is_peak bool) WITH (store = 'columns')"
        )
        self.run(f"COPY e FROM '{os.path.basename(parquet)}' (FORMAT parquet)")
        self.run("VACUUM FULL e")

    def psql(self, sql):
        return ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "millrace", "-d", "millrace", "-XqAt", "-F", "\t", "-c", "\\timing on", "-c", sql]

    def run(self, sql):
        done = subprocess.run(self.psql(sql), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{sql}: {done.stderr}")
        return done.stdout

    def cpu(self):
        with open(f"/proc/{self.server.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def bytes(self):
        return bytes_in(self.path)

    def ask(self, sql):
        lines = self.run(sql).splitlines()
        times = [line for line in lines if line.startswith("Time: ")]
        rows = [line.split("\t") for line in lines if not line.startswith(("Time: ", "Timing is "))]
        return float(re.match(r"Time: ([\d.]+) ms", times[-1]).group(1)) / 1e3, rows

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def alike(a, b):
    """Compares answers; the order of summation and the format of times may differ."""
    if len(a) != len(b):
        return False
    for left, right in zip(a, b):
        for one, other in zip(left, right):
            try:
                same = math.isclose(float(one), float(other), rel_tol=1e-4)
            except (TypeError, ValueError):
                same = str(one)[:13].replace("T", " ") == str(other)[:13].replace("T", " ")
            if not same:
                return False
    return True


def main():
    program, rows = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50_000_000
    answers, sizes = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        parquet = os.path.join(folder, "files", "events.parquet")
        os.mkdir(os.path.dirname(parquet))
        make(parquet, rows)
        for make_product in (Millrace, DuckDb, ClickHouse):
            product = make_product(folder, parquet, program)
            sizes[product.name] = product.bytes()
            for name, sql in QUESTIONS.items():
                sql = sql.replace("BUCKET", BUCKETS[product.name])
                product.ask(sql)
                before = product.cpu()
                asked = [product.ask(sql) for _ in range(5)]
                cpu = (product.cpu() - before) / 5
                answers.setdefault(name, {})[product.name] = (min(seconds for seconds, _ in asked), cpu, asked[0][1])
            product.stop()
    names = list(sizes)
    print("| question | " + " | ".join(f"{name}, ms | M rows/CPU-s" for name in names) + " | same answer |")
    print("|---|" + "---:|" * (2 * len(names)) + "---|")
    for question, of_each in answers.items():
        cells = [f"{seconds * 1e3:,.1f} | {rows / max(cpu, 1e-3) / 1e6:,.0f}" for seconds, cpu, _ in of_each.values()]
        same = all(alike(of_each["millrace"][2], other[2]) for other in of_each.values())
        print(f"| {question} | " + " | ".join(cells) + f" | {'yes' if same else 'NO'} |")
    print("| bytes a row | " + " | ".join(f"{sizes[name] / rows:.2f} |" for name in names) + " | |")


main()
