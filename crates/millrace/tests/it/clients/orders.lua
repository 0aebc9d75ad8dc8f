-- Orders by sysbench over libpq's simple protocol: values inlined in the text, REPEATABLE READ, and whatever conflicts
-- (40001, 40P01, 23505) rolled back by sysbench's driver and repeated as another event.
--
--   sysbench orders.lua --db-driver=pgsql … prepare | run | check | cleanup
--
-- A small model of TPC-C: two sets of tables, few districts, for conflicts between transactions. A violation found by
-- `check` is an error that names the statement.

sysbench.cmdline.options = {
    sets = {"Sets of tables, numbered", 2},
    districts = {"Districts of a set", 4},
    customers = {"Customers of a district", 30},
    items = {"Items of a set", 100},
    level = {"Isolation of the transactions", "REPEATABLE READ"},
}

local CITIES = {"Aachen", "Bergen", "Cádiz", "it''s"}

local function connect()
    return sysbench.sql.driver():connect()
end

local function create(con, set)
    con:query(([[CREATE TABLE district%d (
        id SMALLINT NOT NULL, name VARCHAR(10), ytd DECIMAL(12,2), tax DECIMAL(4,4), next_order INT, PRIMARY KEY (id))]]):format(set))
    con:query(([[CREATE TABLE customer%d (
        district SMALLINT NOT NULL, id INT NOT NULL, city VARCHAR(16), credit CHAR(2), balance DECIMAL(12,2), paid DECIMAL(12,2),
        payments SMALLINT, deliveries SMALLINT, since TIMESTAMP, data TEXT, PRIMARY KEY (district, id))]]):format(set))
    con:query(("CREATE TABLE item%d (id INT NOT NULL, name VARCHAR(24), price DECIMAL(5,2), PRIMARY KEY (id))"):format(set))
    con:query(([[CREATE TABLE stock%d (
        item INT NOT NULL, quantity SMALLINT, ytd DECIMAL(8,0), sold BIGINT, place CHAR(24), PRIMARY KEY (item))]]):format(set))
    con:query(([[CREATE TABLE orders%d (
        district SMALLINT NOT NULL, id INT NOT NULL, customer INT, entered TIMESTAMP, carrier SMALLINT, lines SMALLINT,
        PRIMARY KEY (district, id))]]):format(set))
    con:query(("CREATE TABLE waiting%d (district SMALLINT NOT NULL, id INT NOT NULL, PRIMARY KEY (district, id))"):format(set))
    con:query(([[CREATE TABLE line%d (
        district SMALLINT NOT NULL, id INT NOT NULL, number SMALLINT NOT NULL, item INT, delivered TIMESTAMP, quantity SMALLINT,
        amount DECIMAL(6,2), place CHAR(24), PRIMARY KEY (district, id, number))]]):format(set))
    con:query(("CREATE TABLE history%d (district SMALLINT, customer INT, at TIMESTAMP, amount DECIMAL(6,2), note VARCHAR(24))"):format(set))
end

-- Loads rows with sysbench's bulk inserts.
local function fill(con, text, rows)
    con:bulk_insert_init(text)
    for _, row in ipairs(rows) do
        con:bulk_insert_next(row)
    end
    con:bulk_insert_done()
end

local function load(con, set)
    local opt = sysbench.opt
    local districts, customers, payments, items, stock = {}, {}, {}, {}, {}
    for district = 1, opt.districts do
        -- The sum of the payments below.
        table.insert(districts, ("(%d, 'D%d', %f, %f, 1)"):format(district, district, opt.customers * 10.0, district / 100))
        for id = 1, opt.customers do
            local credit = id % 10 == 0 and "BC" or "GC"
            table.insert(customers, ("(%d, %d, '%s', '%s', -10, 10, 1, 0, NOW(), '%s')"):format(
                district, id, CITIES[id % #CITIES + 1], credit, string.rep("c", 200)))
            table.insert(payments, ("(%d, %d, NOW(), 10, 'initial')"):format(district, id))
        end
    end
    for id = 1, opt.items do
        table.insert(items, ("(%d, 'item %d', %f)"):format(id, id, 1 + id % 90 + id / 1000))
        table.insert(stock, ("(%d, %d, 0, 0, 'place %d')"):format(id, 10 + id % 90, id))
    end
    fill(con, ("INSERT INTO district%d (id, name, ytd, tax, next_order) VALUES"):format(set), districts)
    fill(con, ("INSERT INTO customer%d VALUES"):format(set), customers)
    fill(con, ("INSERT INTO history%d VALUES"):format(set), payments)
    fill(con, ("INSERT INTO item%d VALUES"):format(set), items)
    fill(con, ("INSERT INTO stock%d VALUES"):format(set), stock)
    -- An order for every third customer, by one statement a table.
    con:query(([[INSERT INTO orders%d (district, id, customer, entered, lines)
        SELECT district, id / 3, id, NOW(), 1 FROM customer%d WHERE id %% 3 = 0]]):format(set, set))
    con:query(("INSERT INTO waiting%d SELECT district, id FROM orders%d"):format(set, set))
    con:query(([[INSERT INTO line%d (district, id, number, item, quantity, amount, place)
        SELECT district, id, 1, customer, 5, 1.5, 'initial' FROM orders%d ORDER BY district, id]]):format(set, set))
    con:query(("UPDATE district%d SET next_order = (SELECT max(id) + 1 FROM orders%d WHERE district = district%d.id)"):format(set, set, set))
    con:query(("CREATE INDEX customer_city_%d ON customer%d (district, city)"):format(set, set))
    con:query(("CREATE INDEX orders_customer_%d ON orders%d (district, customer, id)"):format(set, set))
end

local function prepare()
    local con = connect()
    for set = 1, sysbench.opt.sets do
        create(con, set)
        load(con, set)
    end
end

local function cleanup()
    local con = connect()
    for set = 1, sysbench.opt.sets do
        for _, name in ipairs({"district", "customer", "item", "stock", "orders", "waiting", "line", "history"}) do
            con:query(("DROP TABLE IF EXISTS %s%d"):format(name, set))
        end
    end
end

-- Each condition must return no rows.
local CONDITIONS = {
    "SELECT sum(ytd) FROM district%d HAVING sum(ytd) <> (SELECT sum(amount) FROM history%d)",
    "SELECT id FROM district%d d WHERE next_order - 1 <> (SELECT max(id) FROM orders%d o WHERE o.district = d.id)",
    "SELECT district FROM waiting%d GROUP BY district HAVING max(id) - min(id) + 1 <> count(*)",
    "SELECT district, sum(lines) FROM orders%d o GROUP BY district HAVING sum(lines) <> (SELECT count(*) FROM line%d l WHERE l.district = o.district)",
    "SELECT o.id FROM orders%d o LEFT JOIN waiting%d w ON w.district = o.district AND w.id = o.id WHERE (w.id IS NULL) <> (carrier IS NOT NULL)",
    "SELECT l.id FROM line%d l JOIN orders%d o ON o.district = l.district AND o.id = l.id WHERE (delivered IS NULL) <> (carrier IS NULL)",
    "SELECT id FROM district%d d WHERE ytd <> (SELECT sum(amount) FROM history%d h WHERE h.district = d.id)",
    "SELECT s.item FROM stock%d s WHERE ytd <> (SELECT coalesce(sum(quantity), 0) FROM line%d l WHERE l.item = s.item AND l.place <> 'initial')",
    "SELECT district, id FROM line%d GROUP BY district, id HAVING count(DISTINCT number) <> max(number)",
    [[SELECT c.id FROM customer%d c WHERE balance + paid <> (SELECT coalesce(sum(amount), 0) FROM line%d l, orders%d o
        WHERE o.district = l.district AND o.id = l.id AND o.district = c.district AND o.customer = c.id AND delivered IS NOT NULL)]],
}

local function check()
    local con = connect()
    for set = 1, sysbench.opt.sets do
        for _, condition in ipairs(CONDITIONS) do
            local sql = condition:gsub("%%d", set)
            local found = con:query_row(sql)
            if found ~= nil then
                error(found .. " contradicts " .. sql)
            end
        end
        print(("set %d: %s orders, %s payments, %s waiting"):format(set,
            con:query_row(("SELECT count(*) FROM orders%d"):format(set)),
            con:query_row(("SELECT count(*) FROM history%d"):format(set)),
            con:query_row(("SELECT count(*) FROM waiting%d"):format(set))))
    end
end

sysbench.cmdline.commands = {prepare = {prepare}, cleanup = {cleanup}, check = {check}}

local con, random

function thread_init()
    con = connect()
    random = sysbench.rand.uniform
    con:query("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL " .. sysbench.opt.level)
end

function thread_done()
    con:disconnect()
end

local function new_order(set, district)
    local opt = sysbench.opt
    local customer, lines = random(1, opt.customers), random(3, 9)
    con:query("BEGIN")
    con:query_row(("SELECT city, credit, tax FROM customer%d, district%d d WHERE d.id = %d AND district = d.id AND customer%d.id = %d"):format(
        set, set, district, set, customer))
    local order = con:query_row(("SELECT next_order, tax FROM district%d WHERE id = %d FOR UPDATE"):format(set, district))
    con:query(("UPDATE district%d SET next_order = %d WHERE id = %d"):format(set, order + 1, district))
    con:query(("INSERT INTO orders%d (district, id, customer, entered, lines) VALUES (%d, %d, %d, NOW(), %d)"):format(
        set, district, order, customer, lines))
    con:query(("INSERT INTO waiting%d (district, id) VALUES (%d, %d)"):format(set, district, order))
    for number = 1, lines do
        -- Not sorted: orders sometimes deadlock on stock.
        local item, quantity = random(1, opt.items), random(1, 10)
        local price = con:query_row(("SELECT price, name FROM item%d WHERE id = %d"):format(set, item))
        local left, _, place = con:query_row(("SELECT quantity, ytd, place FROM stock%d WHERE item = %d FOR UPDATE"):format(set, item))
        left = tonumber(left) > quantity + 10 and left - quantity or left - quantity + 91
        con:query(("UPDATE stock%d SET quantity = %d, ytd = ytd + %d, sold = sold + 1 WHERE item = %d"):format(set, left, quantity, item))
        con:query(([[INSERT INTO line%d (district, id, number, item, quantity, amount, place)
            VALUES (%d, %d, %d, %d, %d, %f, '%s')]]):format(set, district, order, number, item, quantity, quantity * price, place))
    end
    -- One order in fifty is rolled back.
    con:query(random(1, 50) == 1 and "ROLLBACK" or "COMMIT")
end

local function payment(set, district)
    local opt = sysbench.opt
    local amount, customer = random(100, 500000) / 100, random(1, opt.customers)
    con:query("BEGIN")
    con:query(("UPDATE district%d SET ytd = ytd + %f WHERE id = %d"):format(set, amount, district))
    if random(1, 100) <= 60 then
        local city = CITIES[random(1, #CITIES)]
        local count = con:query_row(("SELECT count(id) namecnt FROM customer%d WHERE district = %d AND city = '%s'"):format(set, district, city))
        local rows = con:query(("SELECT id FROM customer%d WHERE district = %d AND city = '%s' ORDER BY since, id"):format(set, district, city))
        for _ = 1, math.ceil(count / 2) do
            customer = rows:fetch_row()[1]
        end
    end
    local credit, data = con:query_row(("SELECT credit, data, balance, since FROM customer%d WHERE district = %d AND id = %d FOR UPDATE"):format(
        set, district, customer))
    if credit == "BC" then
        data = ("%s %d %.2f|%s"):format(customer, district, amount, data):sub(1, 500)
        con:query(("UPDATE customer%d SET balance = balance - %f, paid = paid + %f, payments = payments + 1, data = '%s' WHERE district = %d AND id = %d"):format(
            set, amount, amount, data, district, customer))
    else
        con:query(("UPDATE customer%d SET balance = balance - %f, paid = paid + %f, payments = payments + 1 WHERE district = %d AND id = %d"):format(
            set, amount, amount, district, customer))
    end
    con:query(("INSERT INTO history%d (district, customer, at, amount, note) VALUES (%d, %d, NOW(), %f, '%s')"):format(
        set, district, customer, amount, "by " .. customer))
    con:query("COMMIT")
end

local function order_status(set, district)
    local customer = random(1, sysbench.opt.customers)
    con:query("BEGIN")
    local order = con:query_row(("SELECT id, carrier, entered FROM orders%d WHERE district = %d AND customer = %d ORDER BY id DESC"):format(
        set, district, customer))
    if order ~= nil then
        con:query(("SELECT item, quantity, amount, delivered FROM line%d WHERE district = %d AND id = %d"):format(set, district, order))
    end
    con:query("COMMIT")
end

local function delivery(set)
    con:query("BEGIN")
    for district = 1, sysbench.opt.districts do
        local order = con:query_row(("SELECT id FROM waiting%d WHERE district = %d ORDER BY id ASC LIMIT 1 FOR UPDATE"):format(set, district))
        if order ~= nil then
            con:query(("DELETE FROM waiting%d WHERE district = %d AND id = %d"):format(set, district, order))
            local customer = con:query_row(("SELECT customer FROM orders%d WHERE district = %d AND id = %d"):format(set, district, order))
            con:query(("UPDATE orders%d SET carrier = %d WHERE district = %d AND id = %d"):format(set, random(1, 10), district, order))
            con:query(("UPDATE line%d SET delivered = NOW() WHERE district = %d AND id = %d"):format(set, district, order))
            local sum = con:query_row(("SELECT SUM(amount) sm FROM line%d WHERE district = %d AND id = %d"):format(set, district, order))
            con:query(("UPDATE customer%d SET balance = balance + %s, deliveries = deliveries + 1 WHERE district = %d AND id = %s"):format(
                set, sum, district, customer))
        end
    end
    con:query("COMMIT")
end

local function stock_level(set, district)
    con:query("BEGIN")
    local next_order = con:query_row(("SELECT next_order FROM district%d WHERE id = %d"):format(set, district))
    con:query_row(([[SELECT COUNT(DISTINCT (s.item)) FROM line%d l, stock%d s WHERE l.district = %d AND l.id < %d AND l.id >= %d
        AND s.item = l.item AND s.quantity < %d]]):format(set, set, district, next_order, next_order - 20, random(10, 20)))
    con:query("COMMIT")
end

function event()
    local set, district = random(1, sysbench.opt.sets), random(1, sysbench.opt.districts)
    local kind = random(1, 23)
    if kind <= 10 then
        new_order(set, district)
    elseif kind <= 20 then
        payment(set, district)
    elseif kind == 21 then
        order_status(set, district)
    elseif kind == 22 then
        delivery(set)
    else
        stock_level(set, district)
    end
end
