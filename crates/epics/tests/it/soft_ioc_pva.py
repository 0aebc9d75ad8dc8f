"""A soft IOC for the tests of both protocols. Prints "up" when it serves.

T:CNT counts at 10 Hz and is its own sequence number; T:AI goes through all alarms in 4 s; T:STATE changes its label.
T:STEP counts at 10 Hz; a clock that steps back and forth stamps it. T:VAR never changes; the third argument is its type.
T:N00000 and so on count at 1 Hz; their number is the second argument.
"""

import sys
import time

from softioc import asyncio_dispatcher, builder, softioc

PREFIX = sys.argv[1]
MANY = int(sys.argv[2])
KIND = sys.argv[3] if len(sys.argv) > 3 else "double"
# Seconds by which the clock of T:STEP is wrong, one after the other: right twice with one time, hours ahead and behind,
# as in 1990 and 2100.
STEPS = [0, -1, 10_800, -10_800, 1 - 1_068_848_000, 2_402_444_800]
builder.SetDeviceName(PREFIX)
ai = builder.aIn("AI", EGU="mA", PREC=3, LOPR=-10, HOPR=10, LOLO=-8, LOW=-6, HIGH=6, HIHI=8,
                 LLSV="MAJOR", LSV="MINOR", HSV="MINOR", HHSV="MAJOR")
dead = builder.aIn("DEAD", ADEL=5, MDEL=0)
counter = builder.longIn("CNT", initial_value=0)
big_int = builder.int64In("I64", initial_value=(1 << 53) + 1)
state = builder.mbbIn("STATE", ("OFF", "MINOR"), "RAMP", ("BEAM", "MAJOR"))
flag = builder.boolIn("FLAG", ZNAM="closed", ONAM="open")
step = builder.longIn("STEP", TSE=-2, initial_value=0)
variable = {"double": lambda: builder.aIn("VAR", initial_value=1.5),
            "string": lambda: builder.stringIn("VAR", initial_value="one and a half"),
            "waveform": lambda: builder.WaveformIn("VAR", length=8, datatype=float, initial_value=[1.5, 2.5])}[KIND]()
text = builder.stringIn("TEXT", initial_value="hello")
wave = builder.WaveformIn("WF", length=32, datatype=float)
arrays = {name: builder.WaveformIn(f"A_{name}", length=8, datatype=name)
          for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32")}
big = builder.WaveformIn("BIG", length=200_000, datatype=float)
many = [builder.longIn(f"N{n:05}", initial_value=0) for n in range(MANY)]
builder.LoadDatabase()
softioc.iocInit(asyncio_dispatcher.AsyncioDispatcher(), enable_pva=True)
big.set(range(200_000))
state.set(2)
for array in arrays.values():
    array.set([1, 2, 100])
print("up", flush=True)
n = 0
while True:
    n += 1
    counter.set(n)
    step.set(n, timestamp=1_700_000_000 + n + STEPS[n % 6])
    ai.set((n % 40) / 2 - 10)
    dead.set(n % 20)
    if n % 10 == 0:
        state.set(n // 10 % 3)
        flag.set(n // 10 % 2)
        text.set(f"text {n}")
        wave.set([n + i for i in range(n % 32)])
        for one in many:
            one.set(n // 10)
    time.sleep(0.1)
