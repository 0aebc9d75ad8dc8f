// Reads samples with Phoebus's own archive readers, unmodified and without a GUI:
//
//     MILLRACE_PG=HOST:PORT java -cp 'PHOEBUS/*' PhoebusReaders.java HOST PORT FIRST LAST
//
// HOST and PORT are those of Millrace's HTTP server, MILLRACE_PG of its PostgreSQL server; FIRST and LAST are the first and last
// value of T:CNT, whose IOC has ended. PHOEBUS is the folder that `cargo xtask tools --phoebus` makes: jars of the readers
// `pbraw:`, `json:` and `jdbc:`, and of the libraries that they need. Prints each difference and exits with 1 if there is one.

import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.epics.vtype.Alarm;
import org.epics.vtype.AlarmSeverity;
import org.epics.vtype.Display;
import org.epics.vtype.Time;
import org.epics.vtype.VDouble;
import org.epics.vtype.VEnum;
import org.epics.vtype.VNumber;
import org.epics.vtype.VNumberArray;
import org.epics.vtype.VStatistics;
import org.epics.vtype.VString;
import org.epics.vtype.VType;
import org.phoebus.archive.reader.ArchiveReader;
import org.phoebus.archive.reader.ArchiveReaders;
import org.phoebus.archive.reader.UnknownChannelException;
import org.phoebus.archive.reader.ValueIterator;
import org.phoebus.archive.reader.appliance.ApplianceArchiveReader;

public class PhoebusReaders {
    static final List<String> LABELS = List.of("OFF", "RAMP", "BEAM");
    static final List<AlarmSeverity> ALARMS = List.of(AlarmSeverity.MINOR, AlarmSeverity.NONE, AlarmSeverity.MAJOR);

    static long first;
    static long last;
    static Instant start;
    static Instant end;
    static int differences;

    public static void main(String[] arguments) throws Exception {
        // Defaults of the readers, not the preferences of whoever runs this.
        System.setProperty("java.util.prefs.userRoot", Files.createTempDirectory("phoebus").toString());
        // The readers log each URL and each reply that is not 200.
        Logger.getLogger("").setLevel(Level.SEVERE);
        String address = arguments[0] + ":" + arguments[1];
        first = Long.parseLong(arguments[2]);
        last = Long.parseLong(arguments[3]);
        end = Instant.now().plusSeconds(1);
        start = end.minus(Duration.ofHours(1));

        String pbraw = "pbraw://" + address + "/retrieval";
        readers("pbraw", ArchiveReaders.createReader(pbraw));
        readers("json", ArchiveReaders.createReader("json:http://" + address + "/"));
        check("json a lost connection", () -> lost(ArchiveReaders.createReader("json:http://" + address + "/")));
        check("pbraw with means", () -> means(new ApplianceArchiveReader(pbraw, false, true)));
        // As it reads from servers that do not have the operator `optimized`.
        check("pbraw with operators", () -> statistics(new ApplianceArchiveReader(pbraw, true, false), true));
        check("pbraw with operator mean", () -> means(new ApplianceArchiveReader(pbraw, false, false)));
        String views = "jdbc:postgresql://" + System.getenv("MILLRACE_PG") + "/millrace?currentSchema=rdb";
        jdbc(ArchiveReaders.createReader(views));
        if (differences > 0) {
            System.exit(1);
        }
        System.out.println("readers of Phoebus: all passed");
        System.exit(0);
    }

    static void readers(String kind, ArchiveReader reader) {
        boolean isJson = kind.equals("json");
        check(kind + " names", () -> names(reader));
        check(kind + " T:CNT", () -> counter(reader));
        check(kind + " T:CNT of a part", () -> part(reader));
        check(kind + " T:CNT as statistics", () -> statistics(reader, !isJson));
        check(kind + " T:CNT with fewer samples than points", () -> few(reader));
        check(kind + " T:AI", () -> analog(reader));
        check(kind + " T:AI as statistics", () -> analogStatistics(reader));
        check(kind + " T:STATE", () -> state(read(reader, "T:STATE")));
        check(kind + " T:STATE with few points", () -> state(fewer(reader, "T:STATE")));
        check(kind + " T:TEXT", () -> text(read(reader, "T:TEXT")));
        check(kind + " T:TEXT with few points", () -> text(fewer(reader, "T:TEXT")));
        check(kind + " T:WF", () -> wave(reader));
        check(kind + " a PV that is unknown", () -> unknown(reader));
        check(kind + " a range without samples", () -> nothing(reader));
        check(kind + " close", reader::close);
    }

    /** The reader of the RDB archiver's tables. It has no reduced samples. */
    static void jdbc(ArchiveReader reader) {
        check("jdbc names", () -> names(reader));
        check("jdbc T:CNT", () -> {
            List<VType> values = read(reader, "T:CNT");
            equal(last - first + 1, (long) values.size());
            for (int at = 0; at < values.size(); at++) {
                equal(first + at, number(values.get(at)).longValue());
            }
        });
        check("jdbc T:AI", () -> analog(reader));
        check("jdbc T:STATE", () -> state(read(reader, "T:STATE")));
        check("jdbc T:TEXT", () -> text(read(reader, "T:TEXT")));
        check("jdbc T:WF", () -> {
            int seen = 0;
            for (VType value : read(reader, "T:WF")) {
                // One without elements has no first element, which tells the reader that there is a value.
                if (value instanceof VNumberArray) {
                    wave(value);
                    seen++;
                }
            }
            expect(seen > 2, "waveforms", seen);
        });
        check("jdbc a PV that is unknown", () -> unknown(reader));
        check("jdbc close", reader::close);
    }

    // Names and descriptions.

    static void names(ArchiveReader reader) throws Exception {
        expect(!reader.getDescription().isBlank(), "a description", reader.getDescription());
        Collection<String> all = reader.getNamesByPattern("T:*");
        expect(all.containsAll(List.of("T:AI", "T:CNT", "T:STATE", "T:TEXT", "T:WF")), "all PVs", all);
        equal(List.of("T:CNT"), List.copyOf(reader.getNamesByPattern("T:C?T")));
        equal(List.of(), List.copyOf(reader.getNamesByPattern("T:NONE*")));
    }

    // Raw samples.

    static void counter(ArchiveReader reader) throws Exception {
        for (String name : List.of("T:CNT", "ca://T:CNT", "pva://T:CNT")) {
            List<VType> values = read(reader, name);
            equal(last - first + 1, (long) values.size());
            for (int at = 0; at < values.size(); at++) {
                equal(first + at, number(values.get(at)).longValue());
                equal(AlarmSeverity.NONE, Alarm.alarmOf(values.get(at)).getSeverity());
            }
        }
    }

    /** The last sample at or before the start is part of the reply. */
    static void part(ArchiveReader reader) throws Exception {
        List<VType> all = read(reader, "T:CNT");
        int middle = all.size() / 2;
        Instant time = time(all.get(middle));
        for (Instant from : List.of(time, time.plusNanos(1))) {
            List<VType> values = collect(reader.getRawValues("T:CNT", from, time(all.get(all.size() - 1))));
            equal(all.size() - middle, values.size());
            equal(first + middle, number(values.get(0)).longValue());
            equal(time, time(values.get(0)));
        }
        List<VType> values = collect(reader.getRawValues("T:CNT", start, time));
        equal(middle + 1, values.size());
    }

    static void analog(ArchiveReader reader) throws Exception {
        for (VType value : read(reader, "T:AI")) {
            double number = number(value).doubleValue();
            Alarm alarm = Alarm.alarmOf(value);
            AlarmSeverity severity = severity(number);
            String status = number >= 8 ? "HIHI" : number >= 6 ? "HIGH"
                    : number <= -8 ? "LOLO" : number <= -6 ? "LOW" : "NO";
            equal(severity, alarm.getSeverity());
            expect(List.of(status, status + "_ALARM").contains(alarm.getName()), status, alarm.getName());
            display(value);
        }
    }

    static void display(VType value) {
        Display display = Display.displayOf(value);
        equal("mA", display.getUnit());
        equal("1.235", display.getFormat().format(1.23456));
        equal("[-10.0 - 10.0]", display.getDisplayRange().toString());
        equal("[-6.0 - 6.0]", display.getWarningRange().toString());
        equal("[-8.0 - 8.0]", display.getAlarmRange().toString());
    }

    static AlarmSeverity severity(double number) {
        double size = Math.abs(number);
        return size >= 8 ? AlarmSeverity.MAJOR : size >= 6 ? AlarmSeverity.MINOR : AlarmSeverity.NONE;
    }

    static void state(List<VType> values) {
        for (VType value : values) {
            if (!(value instanceof VEnum state)) {
                throw new AssertionError("expected a VEnum, seen " + value);
            }
            equal(LABELS, state.getDisplay().getChoices());
            equal(LABELS.get(state.getIndex()), state.getValue());
            equal(ALARMS.get(state.getIndex()), state.getAlarm().getSeverity());
        }
    }

    static void text(List<VType> values) {
        for (VType value : values) {
            expect(value instanceof VString text && text.getValue().matches("hello|text \\d+"), "a VString", value);
        }
    }

    static void wave(ArchiveReader reader) throws Exception {
        List<VType> values = collect(reader.getRawValues("T:WF", fromElements(reader), end));
        expect(!values.isEmpty(), "waveforms", values);
        for (VType value : values) {
            wave(value);
        }
        for (VType value : collect(reader.getOptimizedValues("T:WF", fromElements(reader), end, 1000))) {
            wave(value);
        }
    }

    /** The length follows the first element. */
    static void wave(VType value) {
        if (!(value instanceof VNumberArray wave)) {
            throw new AssertionError("expected a VNumberArray, seen " + value);
        }
        int size = wave.getData().size();
        for (int at = 0; at < size; at++) {
            equal(wave.getData().getDouble(0) + at, wave.getData().getDouble(at));
        }
        expect(size == 0 || size == (int) wave.getData().getDouble(0) % 32, "a length that follows the value", value);
    }

    /** Time of the first waveform with elements: `pbraw:` throws a NullPointerException if the first one has none. */
    static Instant fromElements(ArchiveReader reader) throws Exception {
        if (reader instanceof ApplianceArchiveReader appliance) {
            String url = appliance.getURL().replace("pbraw:", "json:http:").replace("/retrieval", "/");
            return fromElements(ArchiveReaders.createReader(url));
        }
        for (VType value : read(reader, "T:WF")) {
            if (value instanceof VNumberArray wave && wave.getData().size() > 0) {
                return time(value);
            }
        }
        throw new AssertionError("expected a waveform with elements");
    }

    // Reduced samples.

    /** Each part has consecutive numbers, and the parts have all of them. */
    static void statistics(ArchiveReader reader, boolean hasCounts) throws Exception {
        long next = first;
        VStatistics before = null;
        for (VType value : reduced(reader, "T:CNT")) {
            if (!(value instanceof VStatistics part)) {
                throw new AssertionError("expected VStatistics, seen " + value);
            }
            // A part without samples is that before it.
            if (before == null || !before.getMin().equals(part.getMin())) {
                equal(next, part.getMin().longValue());
                next = part.getMax().longValue() + 1;
                long count = next - part.getMin().longValue();
                near((part.getMin() + part.getMax()) / 2, part.getAverage());
                if (hasCounts) {
                    equal(count, part.getNSamples().longValue());
                    // Of consecutive numbers; of one sample it is 0.
                    near(count == 1 ? 0 : Math.sqrt(count * (count + 1) / 12.0), part.getStdDev());
                }
            }
            before = part;
        }
        equal(last + 1, next);
    }

    static void means(ArchiveReader reader) throws Exception {
        double before = first - 1;
        for (VType value : reduced(reader, "T:CNT")) {
            double mean = number(value).doubleValue();
            expect(mean >= before && mean <= last, "increasing means", before + ", " + mean);
            before = mean;
        }
        expect(before > first, "means", before);
    }

    static void few(ArchiveReader reader) throws Exception {
        List<VType> values = collect(reader.getOptimizedValues("T:CNT", start, end, 100_000));
        equal(last - first + 1, (long) values.size());
        equal(last, number(values.get(values.size() - 1)).longValue());
    }

    /** A part has the severest alarm of its samples. */
    static void analogStatistics(ArchiveReader reader) throws Exception {
        for (VType value : reduced(reader, "T:AI")) {
            if (!(value instanceof VStatistics part)) {
                throw new AssertionError("expected VStatistics, seen " + value);
            }
            double size = Math.max(Math.abs(part.getMin()), Math.abs(part.getMax()));
            equal(severity(size), part.getAlarm().getSeverity());
            display(value);
        }
    }

    /** Parts of at least a second from two seconds before the first sample to the last. */
    static List<VType> reduced(ArchiveReader reader, String name) throws Exception {
        List<VType> all = read(reader, name);
        Instant from = time(all.get(0)).minusSeconds(2);
        Instant to = time(all.get(all.size() - 1));
        return collect(reader.getOptimizedValues(name, from, to, 4));
    }

    /** About two samples of a PV that has no mean. */
    static List<VType> fewer(ArchiveReader reader, String name) throws Exception {
        List<VType> all = read(reader, name);
        List<Instant> times = all.stream().map(PhoebusReaders::time).toList();
        List<VType> values = collect(reader.getOptimizedValues(name, start, end, 2));
        expect(!values.isEmpty(), "samples", values);
        for (VType value : values) {
            expect(times.contains(time(value)), "one of the samples", value);
        }
        return values;
    }

    // PVs and ranges without samples.

    static void unknown(ArchiveReader reader) throws Exception {
        try {
            reader.getRawValues("T:NONE", start, end);
            throw new AssertionError("expected an UnknownChannelException");
        } catch (UnknownChannelException expected) {
            expect(expected.getMessage().contains("T:NONE"), "T:NONE", expected);
        }
        try {
            reader.getOptimizedValues("T:NONE", start, end, 10);
            throw new AssertionError("expected an UnknownChannelException");
        } catch (UnknownChannelException expected) {
            expect(expected.getMessage().contains("T:NONE"), "T:NONE", expected);
        }
    }

    /** The IOC has ended: the newest value says so, for the data browser draws the one before it up to now. */
    static void lost(ArchiveReader reader) throws Exception {
        for (String name : List.of("T:CNT", "T:STATE", "T:TEXT", "T:WF")) {
            for (boolean isRaw : List.of(true, false)) {
                ValueIterator values =
                        isRaw ? reader.getRawValues(name, start, end) : reader.getOptimizedValues(name, start, end, 2);
                VType newest = null;
                while (values.hasNext()) {
                    newest = values.next();
                }
                values.close();
                expect(isLost(newest), "Disconnected as the newest value of " + name, newest);
            }
        }
    }

    static boolean isLost(VType value) {
        return value instanceof VDouble number && number.getValue().isNaN()
                && number.getAlarm().getSeverity() == AlarmSeverity.INVALID
                && number.getAlarm().getName().equals("Disconnected");
    }

    static void nothing(ArchiveReader reader) throws Exception {
        Instant early = start.minus(Duration.ofDays(400));
        for (String name : List.of("T:CNT", "T:AI", "T:STATE", "T:TEXT", "T:WF")) {
            equal(0, collect(reader.getRawValues(name, early, early.plusSeconds(60))).size());
            equal(0, collect(reader.getOptimizedValues(name, early, early.plusSeconds(60), 10)).size());
        }
    }

    // Helpers.

    static List<VType> read(ArchiveReader reader, String name) throws Exception {
        List<VType> values = collect(reader.getRawValues(name, start, end));
        expect(!values.isEmpty(), "samples of " + name, values);
        return values;
    }

    /** Values by increasing time, without those that `json:` has for a time without connection. */
    static List<VType> collect(ValueIterator iterator) throws Exception {
        List<VType> values = new ArrayList<>();
        Instant before = Instant.MIN;
        try (iterator) {
            while (iterator.hasNext()) {
                VType value = iterator.next();
                expect(!time(value).isBefore(before), "increasing times", before + ", " + time(value));
                before = time(value);
                if (!isLost(value)) {
                    values.add(value);
                }
            }
        }
        return values;
    }

    static Number number(VType value) {
        if (value instanceof VNumber number) {
            return number.getValue();
        }
        throw new AssertionError("expected a VNumber, seen " + value);
    }

    static Instant time(VType value) {
        return Time.timeOf(value).getTimestamp();
    }

    interface Body {
        void run() throws Exception;
    }

    static void check(String what, Body body) {
        try {
            body.run();
        } catch (Exception | AssertionError error) {
            differences += 1;
            StackTraceElement place = null;
            for (StackTraceElement frame : error.getStackTrace()) {
                boolean isOurs = frame.getClassName().equals("PhoebusReaders");
                if (isOurs && place == null && !List.of("expect", "equal", "near").contains(frame.getMethodName())) {
                    place = frame;
                }
            }
            System.out.println(what + ": " + error + (place == null ? "" : " at line " + place.getLineNumber()));
        }
    }

    static void expect(boolean isSo, String expected, Object seen) {
        if (!isSo) {
            throw new AssertionError("expected " + expected + ", seen " + seen);
        }
    }

    static void equal(Object expected, Object seen) {
        expect(expected.equals(seen), String.valueOf(expected), seen);
    }

    static void near(double expected, double seen) {
        expect(Math.abs(expected - seen) <= 1e-9 * Math.max(1, Math.abs(expected)), String.valueOf(expected), seen);
    }
}
