-- Results of numerics in PostgreSQL 15, for numeric/tests.rs:
--
--   psql -XqAt -F "$(printf '\t')" -f numeric.sql > numeric.tsv
--
-- One line per test: operation, first operand, second operand, answer. The answer of an error is its SQLSTATE, message and
-- detail. `parse` has no quotes in its inputs, and no tabs.

set extra_float_digits = 1;

create function pg_temp.answer(expression text) returns text language plpgsql as $$
declare
  result text;
  state text;
  message text;
  detail text;
begin
  execute 'select (' || expression || ')::text' into strict result;
  return result;
exception when others then
  get stacked diagnostics state = returned_sqlstate, message = message_text, detail = pg_exception_detail;
  return state || ' ' || message || case when detail = '' then '' else '. ' || rtrim(detail, '.') || '.' end;
end
$$;

create temp table operand (value text);
insert into operand values
  ('0'), ('0.00'), ('1'), ('-2.5'), ('3'), ('0.0001'), ('9999.99'), ('10000'), ('12345678901234567.89'),
  ('-99999999999999999999999999999999999999'), ('170141183460469231731687303715884105728'), ('1e-30'),
  ('123456789012345678901234567890123456789012345678901234567890.123456789'), ('NaN'), ('Infinity'), ('-Infinity');

-- Every pair.
select o.operation, a.value, b.value,
  pg_temp.answer(format(o.expression, format('%L::numeric', a.value), format('%L::numeric', b.value)))
from operand a, operand b, (values
  ('add', '%s + %s'), ('sub', '%s - %s'), ('mul', '%s * %s'), ('div', '%s / %s'), ('rem', '%s %% %s'),
  ('compare', 'numeric_cmp(%s, %s)')) as o (operation, expression)
where o.operation <> 'sub' or length(a.value) <> length(b.value);

-- Quotients whose scale is decided by first digits and weights.
select 'div', a, b, pg_temp.answer(format('%L::numeric / %L::numeric', a, b))
from (values
  ('1', '3'), ('2', '3'), ('10', '3'), ('100', '3'), ('1000', '3'), ('9999', '9999'), ('10000', '9999'), ('9999', '10000'),
  ('10000', '10000'), ('10001', '10000'), ('100000000', '7'), ('0.1', '3'), ('0.001', '3'), ('0.00001', '3'), ('3', '0.1'),
  ('3', '0.00001'), ('1', '7.000000000000000000000'), ('1.000000000000000000000000000000', '7'), ('1234.56', '78.9'),
  ('-1234.56', '78.9'), ('22', '7'), ('1e20', '3'), ('1e40', '3'), ('1', '3e40'), ('1', '99999999999999999999999999999999999999'),
  ('5', '2'), ('-5', '2'), ('1', '8'), ('0', '7.00'), ('0.000', '7'), ('1e-40', '3'), ('2e-7', '3e-9'),
  ('1', '1e-50'), ('123456789.123456789', '0.000000001'), ('1', '1e300'), ('1e300', '7'), ('1e-1100', '3')) as q (a, b);

-- Rounding.
select o.operation, a, places::text, pg_temp.answer(format('%s(%L::numeric, %s)', o.operation, a, places))
from (values ('2.5'), ('-2.5'), ('2.45'), ('-0.005'), ('0.5'), ('0.49999999999999999999999999999999999999999'), ('995'), ('-1250.5'),
    ('99999999999999999999999999999999999999.5'), ('1e-30'), ('0'), ('NaN'), ('-Infinity')) as v (a),
  (values ('round'), ('trunc')) as o (operation), (values (-3), (-1), (0), (1), (2), (40)) as p (places);

-- One operand.
select o.operation, a, '', pg_temp.answer(format(o.expression, format('%L::numeric', a)))
from (values ('0'), ('-0.00'), ('1.50'), ('-1.5'), ('2.000'), ('-0.3'), ('0.3'), ('-1e-30'), ('1200.0100'),
    ('170141183460469231731687303715884105727.5'), ('-1e50'), ('NaN'), ('Infinity'), ('-Infinity')) as v (a),
  (values ('neg', '- %s'), ('abs', 'abs(%s)'), ('sign', 'sign(%s)'), ('ceil', 'ceil(%s)'), ('floor', 'floor(%s)'),
    ('trim_scale', 'trim_scale(%s)')) as o (operation, expression);

-- Integers and floats.
select o.ty, a, '', pg_temp.answer(format('%L::numeric::%s', a, o.ty))
from (values ('0'), ('1.4999'), ('1.5'), ('2.5'), ('-0.5'), ('-1.5'), ('32767.4'), ('32767.5'), ('-32768.5'), ('-32768.4'),
    ('2147483647.4'), ('2147483647.5'), ('-2147483648.4'), ('-2147483648.5'), ('9223372036854775807.4'), ('9223372036854775807.5'),
    ('-9223372036854775808.4'), ('-9223372036854775808.5'), ('1e40'), ('0.1'), ('123456789.123456789'), ('9007199254740993'),
    ('16777217'), ('1e22'), ('1e23'), ('1e39'), ('-1e308'), ('1e309'), ('1e-40'), ('1e-46'), ('1e-320'), ('1e-330'), ('0.000'),
    ('0.30000000000000004440892098500626161694526672363281250'), ('NaN'), ('Infinity'), ('-Infinity')) as v (a),
  (values ('int2'), ('int4'), ('int8'), ('float4'), ('float8')) as o (ty);
select 'from_' || o.ty, a, '', pg_temp.answer(format('%L::%s::numeric', a, o.ty))
from (values ('0'), ('-0'), ('1'), ('0.1'), ('-0.30000000000000004'), ('100000'), ('123456.789'), ('1234567890123456789'),
    ('100000000000000.5'), ('100000000000001.5'), ('1e20'), ('1.5e-7'), ('0.000123456789012345678'), ('1e-30'), ('3.4e38'),
    ('2.5'), ('33333.35'), ('999999.5'), ('NaN'), ('Infinity'), ('-Infinity')) as v (a),
  (values ('float4'), ('float8')) as o (ty);
select 'from_float8', a, '', pg_temp.answer(format('%L::float8::numeric', a))
from (values ('1.7976931348623157e308'), ('5e-324'), ('-2.2250738585072014e-308'), ('9007199254740993'), ('1e300')) as v (a);

-- Declared precisions.
select 'precision', a, p, pg_temp.answer(format('%L::numeric(%s)', a, p))
from (values ('0'), ('0.004'), ('0.005'), ('-0.0005'), ('9.994'), ('9.995'), ('999.994'), ('999.995'), ('-1000'), ('12345'), ('12350'),
    ('99949'), ('99950'), ('0.00999'), ('0.0099999'), ('99999999999999999999999999999999999999'), ('1e60'), ('NaN'), ('Infinity')) as v (a),
  (values ('5,2'), ('3,0'), ('3,-2'), ('3,5'), ('2,2'), ('38,0'), ('38,37'), ('100,50'), ('0,0'), ('1001,0'), ('5,1001'), ('5,-1001'))
    as d (p);

-- Text.
select 'parse', a, '', pg_temp.answer(format('%L::numeric', a))
from (values ('0'), ('-0'), ('+1'), ('00012'), ('1.'), ('.5'), ('-.50'), ('1e3'), ('1E3'), ('1e+3'), ('1.25e1'), ('12.5e-2'), ('0e99'),
    ('0e-5'), ('  7  '), ('1e40'), ('-1.5e-40'), ('nan'), ('NAN'), ('inf'), ('-inf'), ('+Infinity'), ('infinity'), ('INF'), (''), ('.'),
    ('e5'), ('1e'), ('1e+'), ('1.2.3'), ('--1'), ('1 2'), ('abc'), ('1x'), ('+nan'), ('-nan'), ('infinit'), ('1_000'), ('0x10'), ('$1'),
    ('99999999999999999999999999999999999999'), ('999999999999999999999999999999999999999'), ('1.00000000000000000000000000000000000000'),
    ('0.00000000000000000000000000000000000000000000000001'), ('-170141183460469231731687303715884105728'),
    ('170141183460469231731687303715884105727'), ('1e200000'), ('1e-20000'), ('1e1000000000000')) as v (a);
