// pgjdbc against a server: java -cp postgresql.jar JdbcClient.java jdbc:postgresql://host:port/database

import java.io.StringReader;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import org.postgresql.PGConnection;

public class JdbcClient {
    static void check(Object seen, Object expected, String what) {
        if (!java.util.Objects.equals(seen, expected)) {
            throw new AssertionError(what + ": " + seen + ", expected " + expected);
        }
    }

    static void ddlAndBatch(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE jdbc (time timestamptz NOT NULL, device text, n int, v float8, ok boolean)"
                    + " WITH (store = 'columns', key = 'device')");
        }
        connection.setAutoCommit(false);
        String insert = "INSERT INTO jdbc (time, device, n, v, ok) VALUES (?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int n = 0; n < 100; n++) {
                statement.setObject(1, OffsetDateTime.parse("2026-01-01T00:00:00Z").plusSeconds(n));
                statement.setString(2, "d" + n % 2);
                statement.setInt(3, n);
                if (n % 10 == 0) {
                    statement.setNull(4, Types.DOUBLE);
                } else {
                    statement.setDouble(4, n / 8.0);
                }
                statement.setBoolean(5, n % 3 == 0);
                statement.addBatch();
            }
            check(statement.executeBatch().length, 100, "batch");
        }
        connection.commit();
    }

    // Executed more than five times, pgjdbc switches to a named statement and binary transfer.
    static void preparedSelect(Connection connection) throws SQLException {
        String select = "SELECT time, n, v, ok FROM jdbc WHERE device = ? AND n < ? ORDER BY n";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            for (int round = 0; round < 12; round++) {
                statement.setString(1, "d1");
                statement.setInt(2, 4);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    check(rows.getTimestamp(1), Timestamp.from(java.time.Instant.parse("2026-01-01T00:00:01Z")), "time");
                    check(rows.getInt(2), 1, "n");
                    check(rows.getDouble(3), 0.125, "v");
                    check(rows.getBoolean(4), false, "ok");
                    rows.next();
                    check(rows.getBoolean("ok"), true, "ok");
                    check(rows.next(), false, "rows");
                }
            }
            ResultSetMetaData columns = statement.getMetaData();
            check(columns.getColumnTypeName(1), "timestamptz", "type name");
            check(columns.getColumnType(3), Types.DOUBLE, "type");
        }
        connection.commit();
    }

    // With a fetch size the driver reads a portal in pieces.
    static void fetchInPieces(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(7);
            int rows = 0;
            try (ResultSet result = statement.executeQuery("SELECT n, v FROM jdbc ORDER BY n")) {
                while (result.next()) {
                    check(result.getInt(1), rows, "order");
                    result.getDouble(2);
                    check(result.wasNull(), rows % 10 == 0, "NULL");
                    rows++;
                }
            }
            check(rows, 100, "rows");
        }
        connection.commit();
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        check(metadata.getDatabaseProductName(), "PostgreSQL", "product");
        List<String> tables = new ArrayList<>();
        try (ResultSet rows = metadata.getTables(null, "public", "%", new String[] {"TABLE"})) {
            while (rows.next()) {
                tables.add(rows.getString("TABLE_NAME"));
            }
        }
        check(tables, List.of("jdbc"), "tables");
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = metadata.getColumns(null, "public", "jdbc", "%")) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " " + rows.getInt("NULLABLE"));
            }
        }
        check(columns, List.of("time timestamptz 0", "device text 1", "n int4 1", "v float8 1", "ok bool 1"), "columns");
        try (ResultSet rows = metadata.getPrimaryKeys(null, "public", "jdbc")) {
            while (rows.next()) {
                rows.getString("COLUMN_NAME");
            }
        }
        connection.commit();
    }

    static void copyAndErrors(Connection connection) throws Exception {
        long copied = connection.unwrap(PGConnection.class).getCopyAPI()
                .copyIn("COPY jdbc (time, device, n) FROM STDIN WITH (FORMAT csv)",
                        new StringReader("2026-02-01 00:00:00+00,copied,1\n2026-02-01 00:00:01+00,copied,2\n"));
        check(copied, 2L, "copied");
        connection.commit();
        try (Statement statement = connection.createStatement()) {
            statement.execute("SELECT * FROM nowhere");
            throw new AssertionError("a table that does not exist was read");
        } catch (SQLException error) {
            check(error.getSQLState(), "42P01", "state");
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("SELECT 1");
            throw new AssertionError("a failed transaction went on");
        } catch (SQLException error) {
            check(error.getSQLState(), "25P02", "state");
        }
        connection.rollback();
        check(connection.isValid(5), true, "valid");
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0], "millrace", "")) {
            ddlAndBatch(connection);
            preparedSelect(connection);
            fetchInPieces(connection);
            metadata(connection);
            copyAndErrors(connection);
        }
        System.out.println("pgjdbc: all passed");
    }
}
