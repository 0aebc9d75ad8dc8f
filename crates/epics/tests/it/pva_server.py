"""A server of PVs that no IOC record has, for the tests of PV Access. Prints "up" when it serves.

S:<type> is an NTScalar of each scalar type and S:<type>s an NTScalarArray; S:TABLE is an NTTable, S:ANY has an any and a union;
S:MESSAGE changes its alarm message and user tag; S:FAST counts, 5 updates each 20 ms.
"""

import sys
import time

from p4p import Type, Value
from p4p.nt import NTScalar, NTTable
from p4p.server import Server
from p4p.server.thread import SharedPV

PREFIX = sys.argv[1]
NUMBERS = {"?": ("bool", 1, [1, 0]), "b": ("int8", -8, [-8, 7]), "B": ("uint8", 200, [1, 200]),
           "h": ("int16", -300, [-300]), "H": ("uint16", 65535, [65535, 1]), "i": ("int32", -70000, [-70000]),
           "I": ("uint32", 4294967295, [4294967295]), "l": ("int64", -(1 << 62), [-(1 << 62)]),
           "L": ("uint64", (1 << 53) + 1, [(1 << 53) + 1]), "f": ("float32", 0.5, [0.5]),
           "d": ("float64", 1e-9, [1e-9, 2.0]), "s": ("text", "äbc", ["a", "", "c"])}
pvs = {}
for code, (name, scalar, array) in NUMBERS.items():
    pvs[f"{PREFIX}:{name}"] = SharedPV(nt=NTScalar(code, display=code not in "?s"), initial=scalar)
    pvs[f"{PREFIX}:{name}s"] = SharedPV(nt=NTScalar("a" + code), initial=array)
pvs[f"{PREFIX}:HUGE"] = SharedPV(nt=NTScalar("L"), initial=(1 << 64) - 1)
table = NTTable([("name", "s"), ("x", "d")])
pvs[f"{PREFIX}:TABLE"] = SharedPV(initial=table.wrap([{"name": "a", "x": 1.5}, {"name": "b", "x": 2.5}]))
dynamic = Type([("any", "v"), ("choice", ("U", None, [("n", "i"), ("t", "s")])),
                ("rows", ("aS", None, [("k", "s"), ("v", "av")])), ("empty", ("S", None, []))], id="test:Dynamic:1.0")
anything = SharedPV(initial=Value(dynamic, {"any": 5, "choice": ("t", "x"), "rows": [{"k": "a", "v": [1.5, "y"]}]}))
pvs[f"{PREFIX}:ANY"] = anything
scalar = NTScalar.buildType("d")
message = SharedPV(initial=Value(scalar, {"value": 0.0}))
pvs[f"{PREFIX}:MESSAGE"] = message
fast = SharedPV(nt=NTScalar("i"), initial=0)
pvs[f"{PREFIX}:FAST"] = fast
server = Server(providers=[pvs])
print("up", flush=True)
n = 0
while True:
    n += 1
    if n % 10 == 0:
        alarm = {"severity": 2, "status": 1, "message": f"pump {n // 10 % 2} is off"}
        stamp = {"secondsPastEpoch": n, "userTag": n // 10 % 2}
        message.post(Value(scalar, {"value": float(n), "alarm": alarm, "timeStamp": stamp}))
        anything.post(Value(dynamic, {"any": float(n), "choice": ("n", n)}))
    for i in range(5):
        fast.post(n * 5 + i - 4)
    time.sleep(0.02)
