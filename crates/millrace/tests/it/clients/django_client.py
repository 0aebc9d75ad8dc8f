"""Django's ORM and migrations against a server: python django_client.py postgres://user@host:port/database

It makes a small application in a folder of its own and runs itself twice, as a developer does: with the first models, and
with changed ones.
"""

import os
import subprocess
import sys
import tempfile
import urllib.parse

FIRST = '''
from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=40)
    email = models.EmailField(unique=True)
    joined = models.DateField(null=True)


class Book(models.Model):
    title = models.CharField(max_length=100)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    pages = models.PositiveIntegerField(default=0)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    published = models.DateTimeField(auto_now_add=True)
    code = models.UUIDField(null=True)
    in_print = models.BooleanField(default=True)
    weight = models.FloatField(null=True)
    cover = models.BinaryField(null=True)
    blurb = models.TextField(blank=True)
'''

SECOND = '''
import datetime
from django.db import models


class Publisher(models.Model):
    name = models.CharField(max_length=40, primary_key=True)


class Tag(models.Model):
    name = models.SlugField()


class Author(models.Model):
    name = models.CharField(max_length=80, db_index=True)
    email = models.EmailField(unique=True)
    joined = models.DateField(default=datetime.date(2020, 1, 1))
    rating = models.SmallIntegerField(default=3)


class Book(models.Model):
    headline = models.CharField(max_length=100)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    publisher = models.ForeignKey(Publisher, on_delete=models.SET_NULL, null=True)
    tags = models.ManyToManyField(Tag)
    pages = models.BigIntegerField(null=True)
    price = models.DecimalField(max_digits=10, decimal_places=3)
    published = models.DateTimeField(auto_now_add=True)
    code = models.UUIDField(null=True)
    in_print = models.BooleanField(default=True)
    weight = models.FloatField(null=True)
    blurb = models.TextField(blank=True)

    class Meta:
        unique_together = [("author", "headline")]
        indexes = [models.Index(fields=["published", "pages"], name="book_published")]
        constraints = [models.CheckConstraint(condition=models.Q(price__gte=0), name="book_price")]
'''


def check(seen, expected, what):
    if seen != expected:
        sys.exit(f"{what}: {seen!r}, expected {expected!r}")


def setup(url, folder):
    import django
    from django.conf import settings

    sys.path.insert(0, folder)
    parts = urllib.parse.urlsplit(url)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": parts.username,
                "HOST": parts.hostname, "PORT": parts.port}
    settings.configure(DATABASES={"default": database}, USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
                       INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "shop"])
    django.setup()


def migrate(name):
    from django.core.management import call_command
    from django.db.migrations.questioner import NonInteractiveMigrationQuestioner

    # "Was book.title renamed to book.headline?" Yes.
    NonInteractiveMigrationQuestioner.ask_rename = lambda *_: True
    call_command("makemigrations", "shop", name=name, interactive=False, verbosity=0)
    call_command("migrate", interactive=False, verbosity=0)
    # Django finds no pending migration.
    call_command("makemigrations", "shop", check=True, dry_run=True, verbosity=0)


def first():
    migrate("first")
    import uuid
    from decimal import Decimal
    from django.contrib.auth.models import Group, Permission, User
    from django.db import IntegrityError, models, transaction
    from django.db.models import Avg, Count, F, Q, Sum
    from shop.models import Author, Book

    ann = Author.objects.create(name="Ann", email="ann@example.org")
    bob = Author.objects.create(name="Bob", email="bob@example.org")
    check((ann.pk, bob.pk), (1, 2), "numbers")
    code = uuid.uuid4()
    book = Book.objects.create(title="One", author=ann, price="9.99", code=code, weight=0.5, cover=b"\x00\xff", blurb="it's")
    book.refresh_from_db()
    check((book.price, book.code, book.weight, bytes(book.cover), book.blurb, book.in_print),
          (Decimal("9.99"), code, 0.5, b"\x00\xff", "it's", True), "values")
    check(book.published.tzinfo is not None, True, "times have zones")
    books = Book.objects.bulk_create(Book(title=f"B{n}", author=bob, price=n, pages=n) for n in range(200))
    check(len({book.pk for book in books}), 200, "bulk_create")

    check(Book.objects.filter(author__name="Bob", pages__lt=10).count(), 10, "join")
    check(list(Author.objects.annotate(n=Count("books")).order_by("name").values_list("name", "n")), [("Ann", 1), ("Bob", 200)], "annotate")
    check(Book.objects.aggregate(s=Sum("price"), a=Avg("pages"))["s"], Decimal("19909.99"), "aggregate")
    check(Book.objects.filter(Q(title="One") | Q(pages=7)).order_by("title").values_list("title", flat=True)[0], "B7", "or")
    check([b.author.name for b in Book.objects.select_related("author").order_by("-pages")[:2]], ["Bob", "Bob"], "select_related")
    check([len(a.books.all()) for a in Author.objects.prefetch_related("books").order_by("pk")], [1, 200], "prefetch_related")
    check(Book.objects.filter(pages__gte=100).update(price=F("price") + 1), 100, "update")
    check(Book.objects.filter(title__icontains="b19").exclude(pages=19).count(), 10, "icontains")
    check(Book.objects.filter(title__startswith="B1", pages__in=[1, 15, 100]).count(), 3, "in")
    check(Book.objects.filter(published__year__gte=2020).exists(), True, "exists")
    check(Author.objects.filter(books__pages__gt=198).distinct().get().name, "Bob", "distinct")
    check(Author.objects.get_or_create(email="ann@example.org")[1], False, "get_or_create")
    check(Author.objects.update_or_create(email="cy@example.org", defaults={"name": "Cy"})[1], True, "update_or_create")
    Author.objects.bulk_create([Author(name="Again", email="cy@example.org")], ignore_conflicts=True)
    Author.objects.bulk_create([Author(name="Cyd", email="cy@example.org")], update_conflicts=True, unique_fields=["email"], update_fields=["name"])
    check(Author.objects.get(email="cy@example.org").name, "Cyd", "upsert")
    changed = list(Book.objects.filter(pages__lt=5))
    for book in changed:
        book.blurb = "changed"
    check(Book.objects.bulk_update(changed, ["blurb"]), len(changed), "bulk_update")

    # Server-side cursors: WITH HOLD outside a transaction, without it inside.
    check(sum(book.pages for book in Book.objects.order_by("pk").iterator(chunk_size=30)), 199 * 100, "iterator")
    with transaction.atomic():
        titles = Book.objects.order_by("-pages").values_list("title", flat=True).iterator(chunk_size=50)
        check(next(titles), "B199", "iterator in a transaction")
        Book.objects.filter(title="B198").update(blurb="changed meanwhile")
        check(len(list(titles)), 200, "the rest of it")

    # atomic() inside atomic() is a savepoint.
    with transaction.atomic():
        Author.objects.create(name="Dee", email="dee@example.org")
        try:
            with transaction.atomic():
                Author.objects.create(name="Eve", email="eve@example.org")
                Author.objects.create(name="Ann", email="ann@example.org")
            sys.exit("a second ann@example.org was taken")
        except IntegrityError as error:
            check(type(error.__cause__).__name__, "UniqueViolation", "refused")
        check(Author.objects.filter(name__in=["Dee", "Eve"]).count(), 1, "rolled back to")
        locked = Author.objects.select_for_update().get(name="Dee")
        locked.name = "Di"
        locked.save()
    check(Author.objects.filter(name="Di").exists(), True, "kept")
    try:
        with transaction.atomic():
            Author.objects.filter(name="Di").delete()
            raise KeyError
    except KeyError:
        pass
    check(Author.objects.filter(name="Di").exists(), True, "delete rolled back")
    try:
        Book.objects.create(title="x", author_id=10_000, price=1)
        sys.exit("a book without author was taken")
    except IntegrityError as error:
        check(type(error.__cause__).__name__, "ForeignKeyViolation", "refused")
    # Deleting an author deletes the books first.
    check(Author.objects.get(name="Ann").delete()[0], 2, "cascade")
    check(Book.objects.count(), 200, "books left")
    check(Author.objects.filter(books=None).order_by("name").values_list("name", flat=True)[0], "Cyd", "left join")

    # The applications included in Django.
    user = User.objects.create_user("ann", "ann@example.org", "secret")
    group = Group.objects.create(name="readers")
    group.permissions.add(*Permission.objects.filter(content_type__app_label="shop"))
    user.groups.add(group)
    check(User.objects.get(username="ann").has_perm("shop.view_book"), True, "permission")


def second():
    migrate("second")
    from decimal import Decimal
    from django.core.management import call_command
    from django.db import IntegrityError, connection, transaction
    from shop.models import Author, Book, Publisher, Tag

    check(Author.objects.filter(rating=3).count(), Author.objects.count(), "a new column has its default")
    check(Author.objects.get(name="Bob").joined.year, 2020, "what was NULL has the default")
    book = Book.objects.get(headline="B7")
    check((book.price, book.pages), (Decimal("7.000"), 7), "a column renamed, one retyped")
    penguin = Publisher.objects.create(name="Penguin")
    book.publisher = penguin
    book.save()
    book.tags.add(Tag.objects.create(name="new"), Tag.objects.create(name="old"))
    check(Book.objects.filter(tags__name="old").get().pk, book.pk, "many to many")
    penguin.delete()
    book.refresh_from_db()
    check(book.publisher, None, "set null")
    for wrong, expected in [
        (dict(headline="B7", author=book.author, price=1), "UniqueViolation"),
        (dict(headline="free", author=book.author, price=-1), "CheckViolation"),
    ]:
        try:
            with transaction.atomic():
                Book.objects.create(**wrong)
            sys.exit(f"{wrong} was taken")
        except IntegrityError as error:
            check(type(error.__cause__).__name__, expected, "refused")

    with connection.cursor() as cursor:
        introspection = connection.introspection
        check("shop_book" in introspection.table_names(cursor), True, "table_names")
        constraints = introspection.get_constraints(cursor, "shop_book")
        unique = [tuple(one["columns"]) for one in constraints.values() if one["unique"] and not one["primary_key"]]
        check(unique, [("author_id", "headline")], "unique_together")
        check(constraints["book_published"]["columns"], ["published", "pages"], "index")
        check(constraints["book_price"]["check"], True, "check")
        relations = introspection.get_relations(cursor, "shop_book")
        check(relations, {"author_id": ("id", "shop_author"), "publisher_id": ("name", "shop_publisher")}, "relations")
        check(introspection.get_primary_key_column(cursor, "shop_book"), "id", "primary key")
    from io import StringIO
    out = StringIO()
    call_command("inspectdb", "shop_book", "shop_author", stdout=out)
    for line in ["headline = models.CharField(max_length=100)", "price = models.DecimalField(max_digits=10, decimal_places=3)",
                 "author = models.ForeignKey(", "unique_together = (('author', 'headline'),)", "rating = models.SmallIntegerField()"]:
        check(line in out.getvalue(), True, f"inspectdb has no {line!r}:\n{out.getvalue()}")

    # Migrates back to the first models and forward again.
    Book.objects.filter(pages=None).delete()
    call_command("migrate", "shop", "0001", interactive=False, verbosity=0)
    call_command("migrate", interactive=False, verbosity=0)
    check(Book.objects.count(), 200, "rows survive")
    call_command("flush", interactive=False, verbosity=0)
    check(Book.objects.count(), 0, "flush")
    call_command("migrate", "shop", "zero", interactive=False, verbosity=0)
    print("django: all passed")


def main():
    if len(sys.argv) > 3:
        setup(sys.argv[1], sys.argv[3])
        {"first": first, "second": second}[sys.argv[2]]()
        return
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "shop"))
        for stage, models in [("first", FIRST), ("second", SECOND)]:
            open(os.path.join(folder, "shop", "__init__.py"), "w").close()
            with open(os.path.join(folder, "shop", "models.py"), "w") as file:
                file.write(models)
            done = subprocess.run([sys.executable, __file__, sys.argv[1], stage, folder])
            if done.returncode:
                sys.exit(done.returncode)


main()
