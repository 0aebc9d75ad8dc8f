"""A soft IOC that serves by pvAccessCPP, the older library, for the tests of PV Access. Prints "up" when it serves.

T:CNT counts at 10 Hz; T:BURST counts 15 times at once, each second; T:GROUP is a group of two records.
"""

import tempfile
import time

from epicscorelibs.ioc import pva_dbd_load, pva_dso_load, start_ioc

RECORDS = """
record(calc, "T:CNT") { field(SCAN, ".1 second") field(CALC, "VAL+1") field(EGU, "n") }
record(calc, "T:BURST") { field(CALC, "VAL+1") }
record(fanout, "T:FAN") { field(SCAN, "1 second") %s }
record(calc, "T:GB") { field(SCAN, ".1 second") field(CALC, "VAL+1")
    info(Q:group, {"T:GROUP": {"+id": "my:group:1.0", "b": {"+type": "plain", "+channel": "VAL", "+trigger": "*"}}}) }
record(calc, "T:GC") { field(CALC, "VAL+1") info(Q:group, {"T:GROUP": {"c": {"+channel": "VAL"}}}) }
record(int64in, "T:I64") { field(VAL, "9007199254740993") field(PINI, "YES") }
record(mbbi, "T:STATE") { field(ZRST, "off") field(ONST, "on") field(ONVL, "1") field(PINI, "YES") }
record(waveform, "T:EMPTY") { field(FTVL, "UCHAR") field(NELM, "10") }
""" % " ".join(f'field(LNK{n:X}, "T:BURST")' for n in range(1, 16))

with tempfile.NamedTemporaryFile("w", suffix=".db") as database:
    database.write(RECORDS)
    database.flush()
    start_ioc(database.name, extra_dbd_load=pva_dbd_load, extra_dso_load=pva_dso_load)
print("up", flush=True)
while True:
    time.sleep(1)
