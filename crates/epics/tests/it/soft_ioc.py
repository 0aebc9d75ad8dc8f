"""A soft IOC of 8 PVs for the tests. Prints "up" when it serves.

T:CNT counts at 10 Hz and is its own sequence number; T:AI goes through all alarms in 4 s; T:STATE changes its label.
"""

import sys
import time

from softioc import asyncio_dispatcher, builder, softioc

PREFIX = sys.argv[1]
builder.SetDeviceName(PREFIX)
ai = builder.aIn("AI", EGU="mA", PREC=3, LOPR=-10, HOPR=10, LOLO=-8, LOW=-6, HIGH=6, HIHI=8,
                 LLSV="MAJOR", LSV="MINOR", HSV="MINOR", HHSV="MAJOR")
counter = builder.longIn("CNT", initial_value=0)
state = builder.mbbIn("STATE", ("OFF", "MINOR"), "RAMP", ("BEAM", "MAJOR"))
flag = builder.boolIn("FLAG", ZNAM="closed", ONAM="open")
text = builder.stringIn("TEXT", initial_value="hello")
wave = builder.WaveformIn("WF", length=32, datatype=float)
chars = builder.WaveformIn("CHARS", length=64, datatype="uint8")
big = builder.WaveformIn("BIG", length=200_000, datatype=float)
builder.LoadDatabase()
softioc.iocInit(asyncio_dispatcher.AsyncioDispatcher(), enable_pva=False)
big.set(range(200_000))
chars.set([1, 2, 200])
state.set(2)
print("up", flush=True)
n = 0
while True:
    n += 1
    counter.set(n)
    ai.set((n % 40) / 2 - 10)
    if n % 10 == 0:
        state.set(n // 10 % 3)
        flag.set(n // 10 % 2)
        text.set(f"text {n}")
        wave.set([n + i for i in range(n % 32)])
    time.sleep(0.1)
