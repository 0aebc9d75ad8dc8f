# Reads {"path": ..., "tables": [{"name": ..., "columns": [[name, type], ...], "rows": [[...], ...]}, ...]} from standard
# input and writes it as a Tableau .hyper file. Exit code 3: the package is not installed.
import datetime
import json
import os
import sys

try:
    from tableauhyperapi import (Connection, CreateMode, HyperProcess, Inserter, NULLABLE, SqlType, TableDefinition,
                                 Telemetry)
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

TYPES = {
    "text": SqlType.text(),
    "int": SqlType.big_int(),
    "double": SqlType.double(),
    "bool": SqlType.bool(),
    "time": SqlType.timestamp_tz(),
}


def main():
    order = json.load(sys.stdin)
    # Written to a temporary file and renamed, so that a reader never sees a partial file.
    temporary = order["path"] + ".new"
    # No log file in the current directory, no telemetry.
    with HyperProcess(Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters={"log_config": ""}) as process:
        with Connection(process.endpoint, temporary, CreateMode.CREATE_AND_REPLACE) as connection:
            for table in order["tables"]:
                columns = [TableDefinition.Column(name, TYPES[kind], NULLABLE) for name, kind in table["columns"]]
                definition = TableDefinition(table["name"], columns)
                connection.catalog.create_table(definition)
                times = [column for column, (_, kind) in enumerate(table["columns"]) if kind == "time"]
                for row in table["rows"]:
                    for column in times:
                        if row[column] is not None:
                            row[column] = datetime.datetime.fromisoformat(row[column])
                with Inserter(connection, definition) as inserter:
                    inserter.add_rows(table["rows"])
                    inserter.execute()
    os.replace(temporary, order["path"])


main()
