// TPC-C's transactions over pgjdbc, in the style of JDBC benchmark kits: tables first and keys afterwards, one round
// trip a statement, batches, autocommit off, doubles for numeric columns, no retries.
//
// java -cp postgresql.jar JdbcTpcc.java jdbc:postgresql://host:port/database
//
// The data are a fiftieth of the specification's, for more conflicts. Afterwards the consistency conditions of its
// clause 3.3.2 must hold, and acknowledged transactions must be present.

import java.io.StringReader;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.postgresql.PGConnection;

public class JdbcTpcc {
    static final int WAREHOUSES = 2;
    static final int DISTRICTS = 3;
    static final int CUSTOMERS = 60;
    static final int WAITING = 18;
    static final int ITEMS = 200;
    static final int CLIENTS = 6;
    static final int TRANSACTIONS = 100;
    /** The specification's syllables for last names; only some combinations occur here. */
    static final String[] SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"};

    static void check(Object seen, Object expected, String what) {
        if (!java.util.Objects.equals(seen, expected)) {
            throw new AssertionError(what + ": " + seen + ", expected " + expected);
        }
    }

    static String lastName(int number) {
        return SYLLABLES[number / 100 % 10] + SYLLABLES[number / 10 % 10] + SYLLABLES[number % 10];
    }

    static void execute(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : statements) {
                statement.execute(sql);
            }
        }
    }

    static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            check(rows.next(), true, sql);
            return rows.getLong(1);
        }
    }

    // Tables without keys, as separate statements.
    static void createTables(Connection connection) throws SQLException {
        StringBuilder places = new StringBuilder();
        for (int district = 1; district <= 10; district++) {
            places.append(String.format("s_dist_%02d char(24), ", district));
        }
        execute(connection,
                "create table config (name varchar(30) primary key, value varchar(50))",
                "create table warehouse (w_id integer not null, w_ytd decimal(12,2), w_tax decimal(4,4), "
                        + "w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20), "
                        + "w_state char(2), w_zip char(9)) with (fillfactor=20)",
                "create table district (d_w_id integer not null, d_id integer not null, d_ytd decimal(12,2), "
                        + "d_tax decimal(4,4), d_next_o_id integer, d_name varchar(10), d_street_1 varchar(20), "
                        + "d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9)) with (fillfactor=20)",
                "create table customer (c_w_id integer not null, c_d_id integer not null, c_id integer not null, "
                        + "c_discount decimal(4,4), c_credit char(2), c_last varchar(16), c_first varchar(16), "
                        + "c_credit_lim decimal(12,2), c_balance decimal(12,2), c_ytd_payment decimal(12,2), "
                        + "c_payment_cnt integer, c_delivery_cnt integer, c_city varchar(20), c_phone char(16), "
                        + "c_since timestamp, c_middle char(2), c_data varchar(500)) with (fillfactor=80)",
                "create sequence hist_id_seq",
                "create table history (hist_id integer, h_c_id integer, h_c_d_id integer, h_c_w_id integer, "
                        + "h_d_id integer, h_w_id integer, h_date timestamp, h_amount decimal(6,2), h_data varchar(24))",
                "create table oorder (o_w_id integer not null, o_d_id integer not null, o_id integer not null, "
                        + "o_c_id integer, o_carrier_id integer, o_ol_cnt integer, o_all_local integer, "
                        + "o_entry_d timestamp) with (fillfactor=80)",
                "create table new_order (no_w_id integer not null, no_d_id integer not null, no_o_id integer not null)",
                "create table order_line (ol_w_id integer not null, ol_d_id integer not null, ol_o_id integer not null, "
                        + "ol_number integer not null, ol_i_id integer not null, ol_delivery_d timestamp, "
                        + "ol_amount decimal(6,2), ol_supply_w_id integer, ol_quantity integer, ol_dist_info char(24))",
                "create table item (i_id integer not null, i_name varchar(24), i_price decimal(5,2), i_data varchar(50), "
                        + "i_im_id integer)",
                "create table stock (s_w_id integer not null, s_i_id integer not null, s_quantity integer, s_ytd integer, "
                        + "s_order_cnt integer, s_remote_cnt integer, s_data varchar(50), " + places
                        + "primary key (s_w_id, s_i_id))",
                "alter table stock drop constraint stock_pkey");
    }

    static void load(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        Random random = new Random(1);
        try (PreparedStatement config = connection.prepareStatement("insert into config (name, value) values (?, ?)")) {
            for (String[] pair : new String[][] {{"warehouses", "" + WAREHOUSES}, {"nURandCLast", "42"}}) {
                config.setString(1, pair[0]);
                config.setString(2, pair[1]);
                config.execute();
            }
        }
        StringBuilder items = new StringBuilder();
        for (int item = 1; item <= ITEMS; item++) {
            items.append(String.format("%d,item %d,%d.%02d,\"data, %d\",%d\n", item, item, 1 + item % 99, item % 100, item, item));
        }
        long copied = connection.unwrap(PGConnection.class).getCopyAPI()
                .copyIn("copy item (i_id, i_name, i_price, i_data, i_im_id) from stdin with csv", new StringReader(items.toString()));
        check(copied, (long) ITEMS, "items");
        for (int warehouse = 1; warehouse <= WAREHOUSES; warehouse++) {
            loadWarehouse(connection, warehouse, random);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    static void loadWarehouse(Connection connection, int warehouse, Random random) throws SQLException {
        String stock = "insert into stock (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data"
                + ", s_dist_01, s_dist_02, s_dist_03) values (?, ?, ?, 0, 0, 0, ?, ?, ?, ?)";
        String district = "insert into district (d_w_id, d_id, d_ytd, d_tax, d_next_o_id, d_name) values (?, ?, ?, ?, ?, ?)";
        String total = "insert into warehouse (w_id, w_ytd, w_tax, w_name, w_state, w_zip) values (?, ?, ?, ?, 'MH', '123411111')";
        try (PreparedStatement one = connection.prepareStatement(total)) {
            one.setInt(1, warehouse);
            one.setDouble(2, DISTRICTS * CUSTOMERS * 10.0);
            one.setDouble(3, random.nextInt(2001) / 10000.0);
            one.setString(4, "W" + warehouse);
            check(one.executeUpdate(), 1, "warehouse");
        }
        try (PreparedStatement batch = connection.prepareStatement(stock)) {
            for (int item = 1; item <= ITEMS; item++) {
                batch.setInt(1, warehouse);
                batch.setInt(2, item);
                batch.setInt(3, 10 + random.nextInt(91));
                batch.setString(4, item % 10 == 0 ? "an ORIGINAL one" : "another");
                for (int place = 1; place <= DISTRICTS; place++) {
                    batch.setString(4 + place, "place " + place + " of item " + item);
                }
                batch.addBatch();
            }
            check(Arrays.stream(batch.executeBatch()).sum(), ITEMS, "stock");
        }
        for (int number = 1; number <= DISTRICTS; number++) {
            try (PreparedStatement one = connection.prepareStatement(district)) {
                one.setInt(1, warehouse);
                one.setInt(2, number);
                one.setDouble(3, CUSTOMERS * 10.0);
                one.setDouble(4, random.nextInt(2001) / 10000.0);
                one.setInt(5, CUSTOMERS + 1);
                one.setString(6, "D" + number);
                check(one.executeUpdate(), 1, "district");
            }
            loadCustomers(connection, warehouse, number, random);
            loadOrders(connection, warehouse, number, random);
        }
    }

    static void loadCustomers(Connection connection, int warehouse, int district, Random random) throws SQLException {
        String customer = "insert into customer (c_w_id, c_d_id, c_id, c_discount, c_credit, c_last, c_first, c_credit_lim, "
                + "c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_phone, c_since, c_middle, c_data) "
                + "values (?, ?, ?, ?, ?, ?, ?, 50000.00, -10.00, 10.00, 1, 0, '0123456789012345', ?, 'OE', ?)";
        String history = "insert into history (hist_id, h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) "
                + "values (?, ?, ?, ?, ?, ?, ?, 10.00, 'initial')";
        try (PreparedStatement customers = connection.prepareStatement(customer);
                PreparedStatement payments = connection.prepareStatement(history)) {
            for (int id = 1; id <= CUSTOMERS; id++) {
                customers.setInt(1, warehouse);
                customers.setInt(2, district);
                customers.setInt(3, id);
                customers.setDouble(4, random.nextInt(5001) / 10000.0);
                customers.setString(5, id % 10 == 0 ? "BC" : "GC");
                customers.setString(6, lastName(id % 20));
                customers.setString(7, "first" + random.nextInt(1000));
                customers.setTimestamp(8, new Timestamp(System.currentTimeMillis()));
                customers.setString(9, "c".repeat(300 + random.nextInt(201)));
                customers.addBatch();
                payments.setInt(1, ((warehouse - 1) * DISTRICTS + district - 1) * CUSTOMERS + id);
                payments.setInt(2, id);
                payments.setInt(3, district);
                payments.setInt(4, warehouse);
                payments.setInt(5, district);
                payments.setInt(6, warehouse);
                payments.setTimestamp(7, new Timestamp(System.currentTimeMillis()));
                payments.addBatch();
            }
            check(customers.executeBatch().length, CUSTOMERS, "customers");
            check(payments.executeBatch().length, CUSTOMERS, "history");
        }
    }

    static void loadOrders(Connection connection, int warehouse, int district, Random random) throws SQLException {
        List<Integer> customers = new ArrayList<>();
        for (int id = 1; id <= CUSTOMERS; id++) {
            customers.add(id);
        }
        java.util.Collections.shuffle(customers, random);
        String order = "insert into oorder (o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local, o_entry_d) "
                + "values (?, ?, ?, ?, ?, ?, 1, ?)";
        String line = "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_delivery_d, ol_amount, "
                + "ol_supply_w_id, ol_quantity, ol_dist_info) values (?, ?, ?, ?, ?, ?, ?, ?, 5, ?)";
        String waiting = "insert into new_order (no_w_id, no_d_id, no_o_id) values (?, ?, ?)";
        try (PreparedStatement orders = connection.prepareStatement(order);
                PreparedStatement lines = connection.prepareStatement(line);
                PreparedStatement news = connection.prepareStatement(waiting)) {
            for (int id = 1; id <= CUSTOMERS; id++) {
                boolean delivered = id <= CUSTOMERS - WAITING;
                Timestamp entered = new Timestamp(System.currentTimeMillis());
                int count = 5 + random.nextInt(11);
                int[] values = {warehouse, district, id, customers.get(id - 1)};
                for (int at = 0; at < values.length; at++) {
                    orders.setInt(at + 1, values[at]);
                }
                if (delivered) {
                    orders.setInt(5, 1 + random.nextInt(10));
                } else {
                    orders.setNull(5, Types.INTEGER);
                    news.setInt(1, warehouse);
                    news.setInt(2, district);
                    news.setInt(3, id);
                    news.addBatch();
                }
                orders.setInt(6, count);
                orders.setTimestamp(7, entered);
                orders.addBatch();
                for (int number = 1; number <= count; number++) {
                    lines.setInt(1, warehouse);
                    lines.setInt(2, district);
                    lines.setInt(3, id);
                    lines.setInt(4, number);
                    lines.setInt(5, 1 + random.nextInt(ITEMS));
                    lines.setTimestamp(6, delivered ? entered : null);
                    lines.setDouble(7, delivered ? 0.00 : (1 + random.nextInt(999999)) / 100.0);
                    lines.setInt(8, warehouse);
                    lines.setString(9, "d".repeat(24));
                    lines.addBatch();
                }
            }
            orders.executeBatch();
            lines.executeBatch();
            check(news.executeBatch().length, WAITING, "new orders");
        }
    }

    // Keys, indexes and foreign keys on loaded tables; a sequence that starts after the last row.
    static void addKeys(Connection connection) throws SQLException {
        execute(connection,
                "alter table warehouse add constraint warehouse_pkey primary key (w_id)",
                "alter table district add constraint district_pkey primary key (d_w_id, d_id)",
                "alter table customer add constraint customer_pkey primary key (c_w_id, c_d_id, c_id)",
                "create index customer_idx1 on customer (c_w_id, c_d_id, c_last, c_first)",
                "alter table oorder add constraint oorder_pkey primary key (o_w_id, o_d_id, o_id)",
                "create unique index oorder_idx1 on oorder (o_w_id, o_d_id, o_carrier_id, o_id)",
                "alter table new_order add constraint new_order_pkey primary key (no_w_id, no_d_id, no_o_id)",
                "alter table order_line add constraint order_line_pkey primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)",
                "alter table stock add constraint stock_pkey primary key (s_w_id, s_i_id)",
                "alter table item add constraint item_pkey primary key (i_id)",
                "alter table district add constraint d_warehouse_fkey foreign key (d_w_id) references warehouse (w_id)",
                "alter table customer add constraint c_district_fkey foreign key (c_w_id, c_d_id) "
                        + "references district (d_w_id, d_id)",
                "alter table history add constraint h_customer_fkey foreign key (h_c_w_id, h_c_d_id, h_c_id) "
                        + "references customer (c_w_id, c_d_id, c_id)",
                "alter table history add constraint h_district_fkey foreign key (h_w_id, h_d_id) "
                        + "references district (d_w_id, d_id)",
                "alter table new_order add constraint no_order_fkey foreign key (no_w_id, no_d_id, no_o_id) "
                        + "references oorder (o_w_id, o_d_id, o_id)",
                "alter table oorder add constraint o_customer_fkey foreign key (o_w_id, o_d_id, o_c_id) "
                        + "references customer (c_w_id, c_d_id, c_id)",
                "alter table order_line add constraint ol_order_fkey foreign key (ol_w_id, ol_d_id, ol_o_id) "
                        + "references oorder (o_w_id, o_d_id, o_id)",
                "alter table order_line add constraint ol_stock_fkey foreign key (ol_supply_w_id, ol_i_id) "
                        + "references stock (s_w_id, s_i_id)",
                "alter table stock add constraint s_warehouse_fkey foreign key (s_w_id) references warehouse (w_id)",
                "alter table stock add constraint s_item_fkey foreign key (s_i_id) references item (i_id)",
                "select setval('hist_id_seq', (select max(hist_id) + 1 from history), false)",
                "alter table history alter column hist_id set default nextval('hist_id_seq')",
                "alter table history add primary key (hist_id)",
                "vacuum analyze");
    }

    /** Outcomes of all clients' transactions. */
    static final AtomicInteger orders = new AtomicInteger();
    static final AtomicInteger rolledBack = new AtomicInteger();
    static final AtomicInteger payments = new AtomicInteger();
    static final AtomicLong paidCents = new AtomicLong();
    static final AtomicInteger delivered = new AtomicInteger();
    static final AtomicInteger lowStocks = new AtomicInteger();

    /** A client: one connection, statements prepared once. */
    static class Client implements Runnable {
        final Connection connection;
        final Random random;
        final PreparedStatement[] statements;
        Throwable failure;

        static final String[] TEXTS = {
            "select d_tax, d_next_o_id from district where d_w_id = ? and d_id = ? for update",
            "select c_discount, c_last, c_credit, w_tax from customer join warehouse on (w_id = c_w_id) "
                    + "where c_w_id = ? and c_d_id = ? and c_id = ?",
            "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = ? and d_id = ?",
            "insert into oorder (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) values (?, ?, ?, ?, ?, ?, ?)",
            "insert into new_order (no_o_id, no_d_id, no_w_id) values (?, ?, ?)",
            "select i_price, i_name, i_data from item where i_id = ?",
            "select s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03 from stock where s_w_id = ? and s_i_id = ? for update",
            "update stock set s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, "
                    + "s_remote_cnt = s_remote_cnt + ? where s_w_id = ? and s_i_id = ?",
            "insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, "
                    + "ol_dist_info) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            "update warehouse set w_ytd = w_ytd + ? where w_id = ?",
            "select w_name, w_state, w_zip from warehouse where w_id = ?",
            "update district set d_ytd = d_ytd + ? where d_w_id = ? and d_id = ?",
            "select d_name from district where d_w_id = ? and d_id = ?",
            "select c_id from customer where c_w_id = ? and c_d_id = ? and c_last = ? order by c_first",
            "select c_first, c_last, c_credit, c_balance, c_since from customer where c_w_id = ? and c_d_id = ? and c_id = ? "
                    + "for update",
            "update customer set c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, "
                    + "c_payment_cnt = c_payment_cnt + 1 where c_w_id = ? and c_d_id = ? and c_id = ?",
            "select c_data from customer where c_w_id = ? and c_d_id = ? and c_id = ?",
            "update customer set c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, "
                    + "c_payment_cnt = c_payment_cnt + 1, c_data = ? where c_w_id = ? and c_d_id = ? and c_id = ?",
            "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) "
                    + "values (?, ?, ?, ?, ?, ?, ?, ?)",
            "select o_id, o_entry_d, o_carrier_id from oorder where o_w_id = ? and o_d_id = ? and o_c_id = ? and o_id = "
                    + "(select max(o_id) from oorder where o_w_id = ? and o_d_id = ? and o_c_id = ?)",
            "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line "
                    + "where ol_w_id = ? and ol_d_id = ? and ol_o_id = ? order by ol_w_id, ol_d_id, ol_o_id, ol_number",
            "select count(*) as low_stock from (select s_w_id, s_i_id, s_quantity from stock where s_w_id = ? "
                    + "and s_quantity < ? and s_i_id in (select ol_i_id from district join order_line on ol_w_id = d_w_id "
                    + "and ol_d_id = d_id and ol_o_id >= d_next_o_id - 20 and ol_o_id < d_next_o_id "
                    + "where d_w_id = ? and d_id = ?)) as l",
            "select no_o_id from new_order where no_w_id = ? and no_d_id = ? order by no_o_id asc",
            "delete from new_order where no_w_id = ? and no_d_id = ? and no_o_id = ?",
            "select o_c_id from oorder where o_w_id = ? and o_d_id = ? and o_id = ?",
            "update oorder set o_carrier_id = ? where o_w_id = ? and o_d_id = ? and o_id = ?",
            "update order_line set ol_delivery_d = ? where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?",
            "select sum(ol_amount) as sum_ol_amount from order_line where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?",
            "update customer set c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 "
                    + "where c_w_id = ? and c_d_id = ? and c_id = ?",
        };

        Client(String url, int number) throws SQLException {
            connection = DriverManager.getConnection(url, "millrace", "");
            connection.setAutoCommit(false);
            check(connection.getTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED, "isolation");
            random = new Random(1000 + number);
            statements = new PreparedStatement[TEXTS.length];
            for (int at = 0; at < TEXTS.length; at++) {
                statements[at] = connection.prepareStatement(TEXTS[at]);
            }
        }

        PreparedStatement bind(int statement, Object... values) throws SQLException {
            PreparedStatement bound = statements[statement];
            for (int at = 0; at < values.length; at++) {
                Object value = values[at];
                if (value instanceof Integer number) {
                    bound.setInt(at + 1, number);
                } else if (value instanceof Double number) {
                    bound.setDouble(at + 1, number);
                } else if (value instanceof Timestamp time) {
                    bound.setTimestamp(at + 1, time);
                } else {
                    bound.setString(at + 1, (String) value);
                }
            }
            return bound;
        }

        /** The first row, which must exist; the others are not read. */
        ResultSet row(int statement, Object... values) throws SQLException {
            ResultSet rows = bind(statement, values).executeQuery();
            check(rows.next(), true, TEXTS[statement]);
            return rows;
        }

        void update(int statement, Object... values) throws SQLException {
            check(bind(statement, values).executeUpdate(), 1, TEXTS[statement]);
        }

        int warehouse() {
            return 1 + random.nextInt(WAREHOUSES);
        }

        int district() {
            return 1 + random.nextInt(DISTRICTS);
        }

        void newOrder() throws SQLException {
            int warehouse = warehouse();
            int district = district();
            int customer = 1 + random.nextInt(CUSTOMERS);
            int count = 5 + random.nextInt(11);
            boolean wrong = random.nextInt(20) == 0;
            // Sorted, so that two orders never deadlock on stock.
            int[] items = random.ints(1, ITEMS + 1).distinct().limit(count).sorted().toArray();
            Timestamp now = new Timestamp(System.currentTimeMillis());
            int order = row(0, warehouse, district).getInt("d_next_o_id");
            double discount = row(1, warehouse, district, customer).getDouble("c_discount");
            check(discount <= 0.5, true, "discount");
            update(2, warehouse, district);
            update(3, order, district, warehouse, customer, now, count, 1);
            update(4, order, district, warehouse);
            for (int line = 1; line <= count; line++) {
                int id = wrong && line == count ? ITEMS + 100 : items[line - 1];
                ResultSet item = bind(5, id).executeQuery();
                if (!item.next()) {
                    check(id, ITEMS + 100, "an item that is not there");
                    // Some kits send the gathered batch before they roll the order back.
                    statements[7].executeBatch();
                    statements[8].executeBatch();
                    connection.rollback();
                    rolledBack.incrementAndGet();
                    return;
                }
                line(warehouse, district, order, line, id, item.getDouble("i_price"));
            }
            statements[7].executeBatch();
            check(Arrays.stream(statements[8].executeBatch()).sum(), count, "order lines");
            connection.commit();
            orders.incrementAndGet();
        }

        void line(int warehouse, int district, int order, int line, int id, double price) throws SQLException {
            int supply = random.nextInt(100) == 0 ? warehouse % WAREHOUSES + 1 : warehouse;
            int quantity = 1 + random.nextInt(10);
            ResultSet stock = row(6, supply, id);
            int left = stock.getInt("s_quantity");
            check(left >= 10, true, "at least ten are left");
            int next = left >= quantity + 10 ? left - quantity : left + 91;
            bind(7, next, quantity, supply == warehouse ? 0 : 1, supply, id).addBatch();
            String place = stock.getString("s_dist_0" + district);
            check(place.length(), 24, "char(24) is padded");
            bind(8, order, district, warehouse, line, id, supply, quantity, price * quantity, place).addBatch();
        }

        /** A customer by number or, usually, by last name: the one in the middle. */
        int customer(int warehouse, int district) throws SQLException {
            if (random.nextInt(100) < 40) {
                return 1 + random.nextInt(CUSTOMERS);
            }
            List<Integer> found = new ArrayList<>();
            try (ResultSet rows = bind(13, warehouse, district, lastName(random.nextInt(20))).executeQuery()) {
                while (rows.next()) {
                    found.add(rows.getInt("c_id"));
                }
            }
            check(found.size(), CUSTOMERS / 20, "customers of a name");
            return found.get((found.size() + 1) / 2 - 1);
        }

        void payment() throws SQLException {
            int warehouse = warehouse();
            int district = district();
            int cents = 100 + random.nextInt(499901);
            double amount = cents / 100.0;
            update(11, amount, warehouse, district);
            String districtName = row(12, warehouse, district).getString("d_name");
            update(9, amount, warehouse);
            String warehouseName = row(10, warehouse).getString("w_name");
            int customer = customer(warehouse, district);
            ResultSet seen = row(14, warehouse, district, customer);
            check(seen.getTimestamp("c_since") != null, true, "since");
            if (seen.getString("c_credit").equals("BC")) {
                String data = row(16, warehouse, district, customer).getString("c_data");
                String entry = customer + " " + district + " " + warehouse + " " + amount + "|" + data;
                update(17, amount, amount, entry.substring(0, Math.min(500, entry.length())), warehouse, district, customer);
            } else {
                update(15, amount, amount, warehouse, district, customer);
            }
            update(18, customer, district, warehouse, district, warehouse, new Timestamp(System.currentTimeMillis()), amount,
                    warehouseName + "    " + districtName);
            connection.commit();
            payments.incrementAndGet();
            paidCents.addAndGet(cents);
        }

        void orderStatus() throws SQLException {
            int warehouse = warehouse();
            int district = district();
            int customer = customer(warehouse, district);
            int order = row(19, warehouse, district, customer, warehouse, district, customer).getInt("o_id");
            int lines = 0;
            try (ResultSet rows = bind(20, warehouse, district, order).executeQuery()) {
                while (rows.next()) {
                    lines++;
                }
            }
            check(lines >= 5 && lines <= 15, true, "lines of an order");
            connection.rollback();
        }

        void stockLevel() throws SQLException {
            int warehouse = warehouse();
            ResultSet count = row(21, warehouse, 10 + random.nextInt(11), warehouse, district());
            lowStocks.addAndGet(count.getInt("low_stock"));
            connection.rollback();
        }

        /** The oldest new order of each district; repeats if another client has taken it. */
        void delivery() throws SQLException {
            int warehouse = warehouse();
            int carrier = 1 + random.nextInt(10);
            int done = 0;
            for (int district = 1; district <= DISTRICTS; district++) {
                int order = -1;
                while (order < 0) {
                    ResultSet oldest = bind(22, warehouse, district).executeQuery();
                    if (!oldest.next()) {
                        break;
                    }
                    order = oldest.getInt("no_o_id");
                    oldest.close();
                    if (bind(23, warehouse, district, order).executeUpdate() == 0) {
                        order = -1;
                    }
                }
                if (order < 0) {
                    continue;
                }
                int customer = row(24, warehouse, district, order).getInt("o_c_id");
                update(25, carrier, warehouse, district, order);
                int lines = bind(26, new Timestamp(System.currentTimeMillis()), warehouse, district, order).executeUpdate();
                check(lines >= 5, true, "lines delivered");
                double sum = row(27, warehouse, district, order).getDouble("sum_ol_amount");
                update(28, sum, warehouse, district, customer);
                done++;
            }
            connection.commit();
            delivered.addAndGet(done);
        }

        @Override
        public void run() {
            try {
                for (int n = 0; n < TRANSACTIONS; n++) {
                    int kind = random.nextInt(100);
                    if (kind < 45) {
                        newOrder();
                    } else if (kind < 80) {
                        payment();
                    } else if (kind < 88) {
                        orderStatus();
                    } else if (kind < 94) {
                        stockLevel();
                    } else {
                        delivery();
                    }
                }
                connection.close();
            } catch (BatchUpdateException error) {
                failure = error.getNextException() == null ? error : error.getNextException();
            } catch (Throwable error) {
                failure = error;
            }
        }
    }

    static void transactions(String url) throws Exception {
        List<Client> clients = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < CLIENTS; number++) {
            clients.add(new Client(url, number));
            threads.add(new Thread(clients.get(number)));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (Client client : clients) {
            if (client.failure != null) {
                throw new AssertionError("a client failed", client.failure);
            }
        }
    }

    // Each statement returns violations of a condition of clause 3.3.2.
    static final String[] CONDITIONS = {
        "select w_id, w_ytd, sum(d_ytd) from warehouse join district on d_w_id = w_id group by w_id, w_ytd "
                + "having w_ytd <> sum(d_ytd)",
        "select d_w_id, d_id, d_next_o_id from district where d_next_o_id - 1 <> "
                + "(select max(o_id) from oorder where o_w_id = d_w_id and o_d_id = d_id)",
        "select no_w_id, no_d_id from new_order group by no_w_id, no_d_id "
                + "having max(no_o_id) - min(no_o_id) + 1 <> count(*)",
        "select * from (select o_w_id, o_d_id, sum(o_ol_cnt) as a from oorder group by o_w_id, o_d_id) x "
                + "join (select ol_w_id, ol_d_id, count(*) as b from order_line group by ol_w_id, ol_d_id) y "
                + "on ol_w_id = o_w_id and ol_d_id = o_d_id where a <> b",
        "select o_w_id, o_d_id, o_id from oorder left join new_order on no_w_id = o_w_id and no_d_id = o_d_id "
                + "and no_o_id = o_id where (o_carrier_id is null) <> (no_o_id is not null)",
        "select o_w_id, o_d_id, o_id, o_ol_cnt, count(ol_number) from oorder left join order_line on ol_w_id = o_w_id "
                + "and ol_d_id = o_d_id and ol_o_id = o_id group by o_w_id, o_d_id, o_id, o_ol_cnt "
                + "having o_ol_cnt <> count(ol_number)",
        "select ol_w_id, ol_d_id, ol_o_id from order_line join oorder on ol_w_id = o_w_id and ol_d_id = o_d_id "
                + "and ol_o_id = o_id where (ol_delivery_d is null) <> (o_carrier_id is null)",
        "select w_id from warehouse where w_ytd <> (select sum(h_amount) from history where h_w_id = w_id)",
        "select d_w_id, d_id from district where d_ytd <> "
                + "(select sum(h_amount) from history where h_w_id = d_w_id and h_d_id = d_id)",
        "select c_w_id, c_d_id, c_id from customer where c_balance <> (select coalesce(sum(ol_amount), 0) from oorder, "
                + "order_line where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_delivery_d is not null "
                + "and o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id) - (select sum(h_amount) from history "
                + "where h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id)",
        "select c_w_id, c_d_id, c_id from customer where c_balance + c_ytd_payment <> (select coalesce(sum(ol_amount), 0) "
                + "from oorder join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id "
                + "where ol_delivery_d is not null and o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id)",
        // Foreign keys hold.
        "select h_c_id from history left join customer on c_w_id = h_c_w_id and c_d_id = h_c_d_id and c_id = h_c_id "
                + "where c_id is null",
    };

    static void conditions(Connection connection, String when) throws SQLException {
        for (String condition : CONDITIONS) {
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(condition)) {
                if (rows.next()) {
                    throw new AssertionError(when + ": " + rows.getString(1) + " contradicts " + condition);
                }
            }
        }
    }

    static void ledger(Connection connection) throws SQLException {
        long initially = (long) WAREHOUSES * DISTRICTS * CUSTOMERS;
        check(number(connection, "select count(*) from oorder"), initially + orders.get(), "orders");
        check(number(connection, "select count(*) from history"), initially + payments.get(), "payments");
        check(number(connection, "select sum(h_amount) * 100 from history"), initially * 1000 + paidCents.get(), "money");
        check(number(connection, "select count(*) from new_order"),
                (long) WAREHOUSES * DISTRICTS * WAITING + orders.get() - delivered.get(), "orders that wait");
        check(number(connection, "select max(hist_id) - count(*) from history") >= 0, true, "numbers of the sequence");
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0], "millrace", "")) {
            createTables(connection);
            load(connection);
            addKeys(connection);
            conditions(connection, "after loading");
            transactions(arguments[0]);
            conditions(connection, "after the run");
            ledger(connection);
        }
        System.out.printf("%d orders, %d rolled back, %d payments, %d delivered, %d low stocks%n", orders.get(),
                rolledBack.get(), payments.get(), delivered.get(), lowStocks.get());
        System.out.println("tpcc over pgjdbc: all passed");
    }
}
