CREATE TABLE device (id int PRIMARY KEY, name text NOT NULL, model varchar(20), code char(4), price numeric(10,2), bought date, tags text[], info jsonb, active boolean);
CREATE TABLE reading (device int NOT NULL, at timestamptz NOT NULL, value float8, quality smallint, total bigint, note text, PRIMARY KEY (device, at));
CREATE TABLE site (id int, name text, location point, parent int);
