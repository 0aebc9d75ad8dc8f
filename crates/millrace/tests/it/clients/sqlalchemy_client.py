"""SQLAlchemy 2 against a server: python sqlalchemy_client.py postgres://user@host:port/database"""

import datetime as dt
import decimal
import sys
import uuid

import sqlalchemy as sa
from sqlalchemy import exc, orm
from sqlalchemy.dialects import postgresql as pg

UTC = dt.timezone.utc
url = sys.argv[1].replace("postgres://", "postgresql+psycopg://")


def check(seen, expected, what):
    if seen != expected:
        sys.exit(f"{what}: {seen!r}, expected {expected!r}")


class Base(orm.DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owner"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), unique=True)
    rate: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(8, 2), server_default="1.50")
    born: orm.Mapped[dt.date | None]
    created: orm.Mapped[dt.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    active: orm.Mapped[bool] = orm.mapped_column(default=True)
    items: orm.Mapped[list["Item"]] = orm.relationship(back_populates="owner", cascade="all, delete-orphan",
                                                       order_by="Item.id")
    __table_args__ = (sa.CheckConstraint("rate >= 0", name="rate_is_positive"),)


class Item(Base):
    __tablename__ = "item"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(start=100), primary_key=True)
    owner_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("owner.id", ondelete="CASCADE"), index=True)
    code: orm.Mapped[str] = orm.mapped_column(sa.CHAR(4))
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(default=uuid.uuid4)
    weight: orm.Mapped[float | None]
    raw: orm.Mapped[bytes | None]
    note: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    data: orm.Mapped[dict | None] = orm.mapped_column(sa.JSON)
    owner: orm.Mapped[Owner] = orm.relationship(back_populates="items")
    __table_args__ = (sa.UniqueConstraint("owner_id", "code", name="item_owner_code"),)


engine = sa.create_engine(url)
Base.metadata.create_all(engine)
# Existing tables are found in the catalog.
Base.metadata.create_all(engine)

with orm.Session(engine) as session:
    ann = Owner(name="ann", born=dt.date(1990, 2, 28))
    ann.items = [
        Item(code="a", weight=1.5, raw=b"\x00\xff", data={"x": [1, None]}),
        Item(code="b", note="it's \\ \"quoted\"\n"),
    ]
    session.add_all([ann, Owner(name="bob", rate=decimal.Decimal("0.01"), active=False)])
    session.commit()
    check((ann.id, ann.rate, ann.active), (1, decimal.Decimal("1.50"), True), "defaults are read back")
    check(ann.created.tzinfo is not None, True, "timestamptz has a zone")
    check([item.id for item in ann.items], [100, 101], "identity begins where it was told")
    check((ann.items[0].raw, ann.items[0].data, ann.items[0].weight), (b"\x00\xff", {"x": [1, None]}, 1.5), "values")
    check(type(ann.items[0].key), uuid.UUID, "uuid")
    check(ann.items[1].note, "it's \\ \"quoted\"\n", "text")

# Many rows by one statement with RETURNING, and by executemany.
with orm.Session(engine) as session:
    many = [Owner(name=f"owner {n}", rate=n) for n in range(500)]
    session.add_all(many)
    session.flush()
    check(len({owner.id for owner in many}), 500, "each has a number of its own")
    session.execute(sa.insert(Item), [{"owner_id": many[n].id, "code": f"c{n % 7}"} for n in range(500)])
    numbers = session.scalars(sa.insert(Owner).returning(Owner.id, sort_by_parameter_order=True),
                              [{"name": f"bulk {n}"} for n in range(100)]).all()
    check(len(numbers), 100, "insert … returning")
    session.commit()

with orm.Session(engine) as session:
    check(session.scalar(sa.select(sa.func.count()).select_from(Item)), 502, "count")
    query = sa.select(Owner).join(Owner.items).where(Item.code == "c3").order_by(Owner.id).limit(3)
    check([owner.name for owner in session.scalars(query)], ["owner 3", "owner 10", "owner 17"], "join")
    query = sa.select(Owner).options(orm.selectinload(Owner.items)).where(Owner.name.in_(["ann", "bob"]))
    check({owner.name: len(owner.items) for owner in session.scalars(query)}, {"ann": 2, "bob": 0}, "selectinload")
    query = sa.select(Owner).options(orm.joinedload(Owner.items)).where(Owner.name == "ann")
    check(len(session.scalars(query).unique().one().items), 2, "joinedload")
    query = sa.select(Item.code, sa.func.count().label("n")).group_by(Item.code).order_by(sa.desc("n"), Item.code).limit(2)
    check([tuple(row) for row in session.execute(query)], [("c0  ", 72), ("c1  ", 72)], "group by")
    query = sa.select(sa.func.sum(Owner.rate)).where(Owner.name.like("owner %"))
    check(session.scalar(query), decimal.Decimal("124750.00"), "sum")
    query = sa.select(Owner.name).where(~sa.exists().where(Item.owner_id == Owner.id), Owner.name < "c").order_by(Owner.name)
    check(session.scalars(query).first(), "bob", "not exists")

# Changes, conflicts and constraint violations.
with orm.Session(engine) as session:
    ann = session.scalars(sa.select(Owner).where(Owner.name == "ann").with_for_update()).one()
    ann.rate += 1
    session.commit()
    check(ann.rate, decimal.Decimal("2.50"), "update")
    changed = session.execute(sa.update(Owner).where(Owner.name.like("bulk %")).values(active=False))
    check(changed.rowcount, 100, "rows changed")
    upsert = pg.insert(Owner).values(name="bob", rate=7)
    upsert = upsert.on_conflict_do_update(index_elements=[Owner.name], set_={"rate": upsert.excluded.rate})
    check(session.scalar(upsert.returning(Owner.rate)), decimal.Decimal("7.00"), "upsert")
    session.commit()
    for wrong, expected in [
        (Owner(name="ann"), "UniqueViolation"),
        (Owner(name="x", rate=-1), "CheckViolation"),
        (Owner(rate=1), "NotNullViolation"),
        (Item(owner_id=10_000, code="z"), "ForeignKeyViolation"),
    ]:
        try:
            with session.begin_nested():
                session.add(wrong)
            sys.exit(f"{wrong} was taken")
        except exc.IntegrityError as error:
            check(type(error.orig).__name__, expected, "refused")
    # Rollback to a savepoint undoes only later changes.
    ann.active = False
    session.flush()
    nested = session.begin_nested()
    session.add(Owner(name="gone"))
    session.flush()
    nested.rollback()
    session.commit()
    check(session.scalar(sa.select(sa.func.count()).where(Owner.name == "gone")), 0, "rolled back to")
    check(session.scalar(sa.select(Owner.active).where(Owner.name == "ann")), False, "kept")

with orm.Session(engine) as session:
    session.delete(session.scalars(sa.select(Owner).where(Owner.name == "ann")).one())
    session.commit()
    check(session.scalar(sa.select(sa.func.count()).select_from(Item)), 500, "items go with their owner")
    session.execute(sa.delete(Owner).where(Owner.name == "owner 0"))
    session.commit()
    check(session.scalar(sa.select(sa.func.count()).select_from(Item)), 499, "ON DELETE CASCADE")

# Server-side cursors.
with orm.Session(engine) as session:
    codes = session.scalars(sa.select(Item.code).order_by(Item.id).execution_options(yield_per=50))
    check(len(list(codes)), 499, "yield_per")
with engine.connect().execution_options(stream_results=True, max_row_buffer=20) as connection:
    result = connection.execute(sa.select(Item.__table__.c.id).order_by(Item.__table__.c.id))
    first = result.fetchmany(10)
    check(len(first) + len(result.fetchall()), 499, "stream_results")

# Core, and a transaction that fails.
with engine.begin() as connection:
    rows = connection.execute(sa.text("SELECT id, name FROM owner WHERE name = :name"), {"name": "bob"}).all()
    check(len(rows), 1, "text")
try:
    with engine.begin() as connection:
        connection.execute(sa.insert(Owner.__table__).values(name="lost"))
        connection.execute(sa.text("SELECT 1 / 0"))
    sys.exit("a division by zero passed")
except exc.DataError:
    pass
with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
    check(connection.scalar(sa.select(sa.func.count()).where(Owner.name == "lost")), 0, "rolled back")

# Inspection of the catalog.
inspector = sa.inspect(engine)
check(sorted(inspector.get_table_names()), ["item", "owner"], "tables")
check(inspector.get_pk_constraint("item")["constrained_columns"], ["id"], "primary key")
key = inspector.get_foreign_keys("item")[0]
check((key["name"], key["referred_table"], key["referred_columns"], key["options"]),
      ("item_owner_id_fkey", "owner", ["id"], {"ondelete": "CASCADE"}), "foreign key")
indexes = {index["name"]: (index["column_names"], index["unique"]) for index in inspector.get_indexes("item")}
check(indexes, {"ix_item_owner_id": (["owner_id"], False), "item_owner_code": (["owner_id", "code"], True)}, "indexes")
check([one["name"] for one in inspector.get_unique_constraints("item")], ["item_owner_code"], "unique")
checks = [(one["name"], one["sqltext"]) for one in inspector.get_check_constraints("owner")]
check(checks, [("rate_is_positive", "rate >= 0::numeric")], "checks")
columns = {column["name"]: column for column in inspector.get_columns("owner")}
check(str(columns["name"]["type"]), "VARCHAR(40)", "type")
check(str(columns["rate"]["type"]), "NUMERIC(8, 2)", "type")
check((columns["rate"]["default"], columns["id"]["default"], columns["created"]["default"]),
      ("1.50", "nextval('owner_id_seq'::regclass)", "now()"), "defaults")
identity = {column["name"]: column for column in inspector.get_columns("item")}["id"]["identity"]
check((identity["start"], identity["always"]), (100, False), "identity")
check("owner_id_seq" in inspector.get_sequence_names(), True, "sequences")

reflected = sa.MetaData()
reflected.reflect(engine)
check(sorted(reflected.tables), ["item", "owner"], "reflected")
check([column.name for column in reflected.tables["item"].columns],
      ["id", "owner_id", "code", "key", "weight", "raw", "note", "data"], "reflected columns")
with engine.connect() as connection:
    check(connection.scalar(sa.select(sa.func.count()).select_from(reflected.tables["item"])), 499, "read as reflected")

# A reflected table is created again, unchanged.
Base.metadata.drop_all(engine)
check(sa.inspect(engine).get_table_names(), [], "dropped")
reflected.create_all(engine)
check(sorted(sa.inspect(engine).get_table_names()), ["item", "owner"], "made again")
reflected.drop_all(engine)

print("sqlalchemy: all passed")
