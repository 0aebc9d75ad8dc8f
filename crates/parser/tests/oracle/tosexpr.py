"""PostgreSQL's tree, as libpg_query (pglast 5) gives it, in the S-expression notation of crates/parser/src/print/sexpr.rs."""
import re
from enum import Enum
from pglast import parse_sql
from pglast import ast as A


class No(Exception): pass

# Fields of one type, whose nodes are not wrapped by their type's name.
BARE = {'typeName', 'alias', 'withClause', 'intoClause', 'rel', 'onConflictClause', 'infer', 'collClause', 'over',
        'join_using_alias', 'search_clause', 'cycle_clause'}

def conv(x):
    """A node as {type: {field: value}}, without fields that are not set."""
    if isinstance(x, tuple): return [({'List': {'items': conv(i)}} if isinstance(i, tuple) else conv(i)) for i in x]
    if isinstance(x, Enum): return x.name
    if not isinstance(x, A.Node): return x
    k = type(x).__name__
    if k == 'A_Const':
        v = x.val
        if x.isnull or v is None: return {k: {'isnull': True}}
        f, a = {'Integer': ('ival', 'ival'), 'Float': ('fval', 'fval'), 'String': ('sval', 'sval'),
                'BitString': ('bsval', 'bsval'), 'Boolean': ('boolval', 'boolval')}[type(v).__name__]
        return {k: {f: {f: getattr(v, a)}}}
    d = {}
    for f in x:
        v = getattr(x, f)
        if v is None or v is False or v == (): continue
        c = conv(v)
        if f == 'rexpr' and isinstance(v, tuple): c = {'List': {'items': c}}
        bare = f in BARE or f == 'relation' and k.endswith('Stmt') or f in ('larg', 'rarg') and k == 'SelectStmt'
        if bare and isinstance(v, A.Node): (c,) = c.values()
        d[f] = c
    return {k: d}

def q(t):
    return '"' + t.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') + '"'

def ident(n):
    return n if re.fullmatch(r'[A-Za-z0-9_]+', n) else q(n)

def s(n):  # String node
    return n['String']['sval'] if 'sval' in n.get('String', {}) else n['String'].get('str', '')

def names(l):
    return '.'.join(ident(s(n)) for n in l)

def opname(l):
    return q('.'.join(s(n) for n in l))

def clause(word, items, f):
    return f' ({word} ' + ' '.join(f(i) for i in items) + ')' if items else ''

def const(c):
    if c.get('isnull'): return 'null'
    if 'ival' in c: return str(c['ival'].get('ival', 0))
    if 'fval' in c: return f"(num {c['fval']['fval']})"
    if 'sval' in c: return q(c['sval'].get('sval', ''))
    if 'bsval' in c: return f"(bits {q(c['bsval']['bsval'])})"
    if 'boolval' in c: return 'true' if c['boolval'].get('boolval') else 'false'
    raise No(str(c))

def typ(t):
    out = '(type ' + names(t['names'])
    if t.get('setof'): out += ' setof'
    if t.get('pct_type'): out += ' pct'
    out += clause('mods', t.get('typmods'), expr)
    for b in t.get('arrayBounds', []): out += f" [{b['Integer'].get('ival', 0)}]"
    return out + ')'

def steps(l):
    out = []
    for n in l:
        if 'String' in n: out.append(f'(field {ident(s(n))})')
        elif 'A_Star' in n: out.append('*')
        else:
            i = n['A_Indices']
            if i.get('is_slice'):
                o = '(slice'
                if 'lidx' in i: o += f" (low {expr(i['lidx'])})"
                if 'uidx' in i: o += f" (high {expr(i['uidx'])})"
                out.append(o + ')')
            else: out.append(f"(index {expr(i['uidx'])})")
    return ' '.join(out)

BT = {'IS_TRUE': 'is_true', 'IS_NOT_TRUE': 'is_not_true', 'IS_FALSE': 'is_false', 'IS_NOT_FALSE': 'is_not_false',
      'IS_UNKNOWN': 'is_unknown', 'IS_NOT_UNKNOWN': 'is_not_unknown'}
SV = {'CURRENT_DATE': 'CurrentDate', 'CURRENT_TIME': 'CurrentTime(None)', 'CURRENT_TIME_N': 'CurrentTime(Some({}))',
      'CURRENT_TIMESTAMP': 'CurrentTimestamp(None)', 'CURRENT_TIMESTAMP_N': 'CurrentTimestamp(Some({}))',
      'LOCALTIME': 'LocalTime(None)', 'LOCALTIME_N': 'LocalTime(Some({}))', 'LOCALTIMESTAMP': 'LocalTimestamp(None)',
      'LOCALTIMESTAMP_N': 'LocalTimestamp(Some({}))', 'CURRENT_ROLE': 'CurrentRole', 'CURRENT_USER': 'CurrentUser',
      'USER': 'User', 'SESSION_USER': 'SessionUser', 'CURRENT_CATALOG': 'CurrentCatalog', 'CURRENT_SCHEMA': 'CurrentSchema'}

def exprs(l): return ' '.join(expr(i) for i in l or [])

def sp(word, l):
    return f'({word} ' + exprs(l) + ')'

def expr(n):
    (k, v), = n.items()
    if k == 'A_Const': return const(v)
    if k == 'ParamRef': return f"${v.get('number', 0)}"
    if k == 'ColumnRef':
        return '(col ' + ' '.join('*' if 'A_Star' in f else ident(s(f)) for f in v['fields']) + ')'
    if k == 'TypeCast':
        a = v['arg']
        if 'A_Const' in a and 'boolval' in a['A_Const'] and v.get('location', 0) == -1: return const(a['A_Const'])
        return f"(cast {expr(a)} {typ(v['typeName'])})"
    if k == 'A_Expr':
        kind = v['kind']; l = v.get('lexpr'); r = v.get('rexpr')
        if kind == 'AEXPR_OP':
            return f"(op {opname(v['name'])} {expr(l)} {expr(r)})" if l else f"(prefix {opname(v['name'])} {expr(r)})"
        if kind in ('AEXPR_OP_ANY', 'AEXPR_OP_ALL'):
            return f"({kind[9:].lower()} {opname(v['name'])} {expr(l)} {expr(r)})"
        if kind == 'AEXPR_DISTINCT': return f"(distinct {expr(l)} {expr(r)})"
        if kind == 'AEXPR_NOT_DISTINCT': return f"(not_distinct {expr(l)} {expr(r)})"
        if kind == 'AEXPR_NULLIF': return f"(nullif {expr(l)} {expr(r)})"
        if kind == 'AEXPR_IN':
            w = 'in' if s(v['name'][0]) == '=' else 'not_in'
            return f"({w} {expr(l)} {exprs(r['List']['items'])})"
        if kind in ('AEXPR_LIKE', 'AEXPR_ILIKE', 'AEXPR_SIMILAR'):
            return f"({kind[6:].lower()} {opname(v['name'])} {expr(l)} {expr(r)})"
        if 'BETWEEN' in kind:
            w = kind[6:].lower()
            return f"({w} {expr(l)} {exprs(r['List']['items'])})"
        raise No(kind)
    if k == 'BoolExpr':
        return sp(v['boolop'][:-5].lower(), v['args'])
    if k == 'NullTest': return f"({'isnull' if v['nulltesttype'] == 'IS_NULL' else 'notnull'} {expr(v['arg'])})"
    if k == 'BooleanTest': return f"({BT[v['booltesttype']]} {expr(v['arg'])})"
    if k == 'FuncCall': return call(v)
    if k == 'SQLValueFunction':
        return '(value ' + SV[v['op'][6:]].format(v.get('typmod', 0)) + ')'
    if k == 'CollateClause': return f"(collate {expr(v['arg'])} {names(v['collname'])})"
    if k == 'CaseExpr':
        o = '(case'
        if 'arg' in v: o += f" (arg {expr(v['arg'])})"
        for w in v['args']: o += f" (when {expr(w['CaseWhen']['expr'])} {expr(w['CaseWhen']['result'])})"
        if 'defresult' in v: o += f" (else {expr(v['defresult'])})"
        return o + ')'
    if k == 'RowExpr':
        return sp('row' if v['row_format'] == 'COERCE_EXPLICIT_CALL' else 'irow', v.get('args'))
    if k == 'A_ArrayExpr': return sp('array', v.get('elements'))
    if k == 'CoalesceExpr': return sp('coalesce', v['args'])
    if k == 'MinMaxExpr': return sp('greatest' if v['op'] == 'IS_GREATEST' else 'least', v['args'])
    if k == 'GroupingFunc': return sp('grouping', v['args'])
    if k == 'SubLink':
        t = v['subLinkType']; qq = query(v['subselect']['SelectStmt'])
        if t == 'EXPR_SUBLINK': return f'(subquery {qq})'
        if t == 'EXISTS_SUBLINK': return f'(exists {qq})'
        if t == 'ARRAY_SUBLINK': return f'(arrayq {qq})'
        if t == 'ANY_SUBLINK' and not v.get('operName'): return f"(inq {expr(v['testexpr'])} {qq})"
        w = {'ANY_SUBLINK': 'anyq', 'ALL_SUBLINK': 'allq'}[t]
        return f"({w} {opname(v['operName'])} {expr(v['testexpr'])} {qq})"
    if k == 'A_Indirection': return f"(indir {expr(v['arg'])} {steps(v['indirection'])})"
    if k == 'NamedArgExpr': return f"(named {ident(v['name'])} {expr(v['arg'])})"
    if k == 'SetToDefault': return 'default'
    if k == 'CurrentOfExpr': return f"(currentof {ident(v['cursor_name'])})"
    raise No(k)

def call(v):
    o = '(call ' + names(v['funcname'])
    if v.get('funcformat') == 'COERCE_SQL_SYNTAX': o += ' sql'
    if v.get('agg_star'): o += ' star'
    if v.get('agg_distinct'): o += ' distinct'
    if v.get('func_variadic'): o += ' variadic'
    if v.get('agg_within_group'): o += ' within'
    o += clause('args', v.get('args'), expr) + clause('order', v.get('agg_order'), sort)
    if 'agg_filter' in v: o += f" (filter {expr(v['agg_filter'])})"
    if 'over' in v:
        w = v['over']
        o += ' (over ' + (ident(w['name']) if 'name' in w else window(w)) + ')'
    return o + ')'

def window(w):
    o = '(window'
    if 'refname' in w: o += f" (base {ident(w['refname'])})"
    o += clause('partition', w.get('partitionClause'), expr) + clause('order', w.get('orderClause'), sort)
    f = w.get('frameOptions', 0)
    if f & 1:
        o += ' (' + ('range' if f & 2 else 'rows' if f & 4 else 'groups') + ' '
        def b(up, uf, c, op, of, e):
            if f & up: return 'unbounded_preceding'
            if f & uf: return 'unbounded_following'
            if f & c: return 'current'
            if f & op: return f'(preceding {expr(e)})'
            return f'(following {expr(e)})'
        o += b(0x20, 0x80, 0x200, 0x800, 0x2000, w.get('startOffset'))
        if f & 0x10: o += ' ' + b(0x40, 0x100, 0x400, 0x1000, 0x4000, w.get('endOffset'))
        if f & 0x8000: o += ' exclude_current'
        if f & 0x10000: o += ' exclude_group'
        if f & 0x20000: o += ' exclude_ties'
        o += ')'
    return o + ')'

def order(d, nulls, use=None):
    o = {'SORTBY_DEFAULT': '', 'SORTBY_ASC': ' asc', 'SORTBY_DESC': ' desc', 'SORTBY_USING': ''}[d]
    if d == 'SORTBY_USING': o = ' using ' + opname(use)
    return o + {'SORTBY_NULLS_DEFAULT': '', 'SORTBY_NULLS_FIRST': ' nulls_first', 'SORTBY_NULLS_LAST': ' nulls_last'}[nulls]

def sort(n):
    v = n['SortBy']
    return f"(sort {expr(v['node'])}{order(v['sortby_dir'], v['sortby_nulls'], v.get('useOp'))})"

def target(n):
    v = n['ResTarget']
    return f"(as {ident(v['name'])} {expr(v['val'])})" if 'name' in v else expr(v['val'])

def group(n):
    if 'GroupingSet' in n:
        v = n['GroupingSet']; k = v['kind']; c = v.get('content', [])
        if k == 'GROUPING_SET_EMPTY': return '(empty)'
        if k == 'GROUPING_SET_ROLLUP': return sp('rollup', c)
        if k == 'GROUPING_SET_CUBE': return sp('cube', c)
        return '(sets ' + ' '.join(group(i) for i in c) + ')'
    return expr(n)

def withc(w):
    if not w: return ''
    return clause('with_recursive' if w.get('recursive') else 'with', w['ctes'], cte)

def cte(n):
    v = n['CommonTableExpr']
    o = '(cte ' + ident(v['ctename']) + clause('columns', v.get('aliascolnames'), lambda x: ident(s(x)))
    o += {'CTEMaterializeDefault': '', 'CTEMaterializeAlways': ' materialized', 'CTEMaterializeNever': ' not_materialized'}[v['ctematerialized']]
    o += ' ' + stmt(v['ctequery'])
    if 'search_clause' in v:
        c = v['search_clause']
        o += f" (search {'breadth' if c.get('search_breadth_first') else 'depth'} ({' '.join(ident(s(x)) for x in c['search_col_list'])}) {ident(c['search_seq_column'])})"
    if 'cycle_clause' in v:
        c = v['cycle_clause']
        o += f" (cycle ({' '.join(ident(s(x)) for x in c['cycle_col_list'])}) {ident(c['cycle_mark_column'])} {expr(c['cycle_mark_value'])} {expr(c['cycle_mark_default'])} {ident(c['cycle_path_column'])})"
    return o + ')'

def alias(a):
    if not a: return ''
    return ' (alias ' + ident(a['aliasname']) + clause('columns', a.get('colnames'), lambda x: ident(s(x))) + ')'

def rvname(v):
    return '.'.join(ident(v[p]) for p in ('catalogname', 'schemaname', 'relname') if p in v)

def rel(v):
    return '(rel ' + rvname(v) + ('' if v.get('inh') else ' only') + alias(v.get('alias')) + ')'

def column(n):
    v = n['ColumnDef']
    o = f"({ident(v['colname'])} {typ(v['typeName'])}"
    if 'collClause' in v: o += ' ' + names(v['collClause']['collname'])
    return o + ')'

def table(n):
    (k, v), = n.items()
    if k == 'RangeVar': return rel(v)
    if k == 'RangeSubselect':
        return f"({'lateral' if v.get('lateral') else 'derived'} {query(v['subquery']['SelectStmt'])}{alias(v.get('alias'))})"
    if k == 'RangeFunction':
        o = '(function' + (' lateral' if v.get('lateral') else '') + (' rows_from' if v.get('is_rowsfrom') else '') + (' ordinality' if v.get('ordinality') else '')
        for f in v['functions']:
            i = f['List']['items']
            o += ' (' + expr(i[0])
            if len(i) > 1 and i[1]: o += clause('columns', i[1]['List']['items'], column)
            o += ')'
        return o + alias(v.get('alias')) + clause('columns', v.get('coldeflist'), column) + ')'
    if k == 'RangeTableSample':
        o = f"(sample {table(v['relation'])} {names(v['method'])}" + clause('args', v['args'], expr)
        if 'repeatable' in v: o += f" (repeatable {expr(v['repeatable'])})"
        return o + ')'
    if k == 'JoinExpr':
        o = {'JOIN_INNER': '(join', 'JOIN_LEFT': '(left_join', 'JOIN_RIGHT': '(right_join', 'JOIN_FULL': '(full_join'}[v['jointype']]
        if v.get('isNatural'): o += ' natural'
        o += f" {table(v['larg'])} {table(v['rarg'])}"
        if 'quals' in v: o += f" (on {expr(v['quals'])})"
        o += clause('using', v.get('usingClause'), lambda x: ident(s(x)))
        if 'join_using_alias' in v: o += f" (using_alias {ident(v['join_using_alias']['aliasname'])})"
        return o + alias(v.get('alias')) + ')'
    raise No(k)

def query(v):
    o = '(query' + withc(v.get('withClause')) + ' '
    op = v.get('op', 'SETOP_NONE')
    if op != 'SETOP_NONE':
        o += f"({op[6:].lower()}{'_all' if v.get('all') else ''} {query(v['larg'])} {query(v['rarg'])})"
    elif 'valuesLists' in v:
        o += '(values ' + ' '.join(sp('row', r['List']['items']) for r in v['valuesLists']) + ')'
    else:
        o += '(select'
        d = v.get('distinctClause')
        if d is not None:
            o += ' distinct' if not d[0] else clause('distinct', d, expr)
        o += clause('targets', v.get('targetList'), target)
        if 'intoClause' in v:
            r = v['intoClause']['rel']
            o += {'p': ' (into ', 't': ' (into_temp ', 'u': ' (into_unlogged '}[r['relpersistence']] + rvname(r) + ')'
        o += clause('from', v.get('fromClause'), table)
        if 'whereClause' in v: o += f" (where {expr(v['whereClause'])})"
        o += clause('group_distinct' if v.get('groupDistinct') else 'group', v.get('groupClause'), group)
        if 'havingClause' in v: o += f" (having {expr(v['havingClause'])})"
        o += clause('windows', v.get('windowClause'), lambda w: f"({ident(w['WindowDef']['name'])} {window(w['WindowDef'])})")
        o += ')'
    o += clause('order', v.get('sortClause'), sort)
    if 'limitCount' in v:
        o += f" ({'ties' if v.get('limitOption') == 'LIMIT_OPTION_WITH_TIES' else 'limit'} {expr(v['limitCount'])})"
    if 'limitOffset' in v: o += f" (offset {expr(v['limitOffset'])})"
    for l in v.get('lockingClause', []):
        l = l['LockingClause']
        o += ' (lock ' + {'LCS_FORKEYSHARE': 'key_share', 'LCS_FORSHARE': 'share', 'LCS_FORNOKEYUPDATE': 'no_key_update', 'LCS_FORUPDATE': 'update'}[l['strength']]
        o += {'LockWaitBlock': '', 'LockWaitSkip': ' skip', 'LockWaitError': ' nowait'}[l['waitPolicy']]
        o += clause('of', l.get('lockedRels'), lambda r: rvname(r['RangeVar'])) + ')'
    return o + ')'

def tcol(v):
    return f"(part {ident(v['name'])} {steps(v['indirection'])})" if v.get('indirection') else ident(v['name'])

def sets(l):
    out = []; i = 0
    while i < len(l):
        v = l[i]['ResTarget']; val = v['val']
        if 'MultiAssignRef' in val:
            m = val['MultiAssignRef']; n = m['ncolumns']
            out.append(f"(=* ({' '.join(tcol(x['ResTarget']) for x in l[i:i+n])}) {expr(m['source'])})"); i += n
        else:
            out.append(f"(= {tcol(v)} {expr(val)})"); i += 1
    return ' (set ' + ' '.join(out) + ')'

def over(v):
    return {'OVERRIDING_NOT_SET': '', 'OVERRIDING_USER_VALUE': ' overriding_user', 'OVERRIDING_SYSTEM_VALUE': ' overriding_system'}[v.get('override', 'OVERRIDING_NOT_SET')]

def index(n):
    v = n['IndexElem']
    o = '(' + (ident(v['name']) if 'name' in v else expr(v['expr']))
    for p in ('collation', 'opclass'):
        if v.get(p): o += ' ' + names(v[p])
    return o + order(v['ordering'], v['nulls_ordering']) + ')'

def insert(v):
    o = '(insert' + withc(v.get('withClause')) + ' ' + rel(v['relation'])
    o += clause('columns', v.get('cols'), lambda x: tcol(x['ResTarget'])) + over(v)
    if 'selectStmt' in v: o += ' ' + query(v['selectStmt']['SelectStmt'])
    if 'onConflictClause' in v:
        c = v['onConflictClause']; o += ' (conflict'
        i = c.get('infer')
        if i:
            if 'conname' in i: o += f" (constraint {ident(i['conname'])})"
            else:
                o += clause('index', i.get('indexElems'), index)
                if 'whereClause' in i: o += f" (index_where {expr(i['whereClause'])})"
        if c['action'] == 'ONCONFLICT_NOTHING': o += ' nothing'
        else:
            o += sets(c['targetList'])
            if 'whereClause' in c: o += f" (where {expr(c['whereClause'])})"
        o += ')'
    return o + clause('returning', v.get('returningList'), target) + ')'

def update(v):
    o = '(update' + withc(v.get('withClause')) + ' ' + rel(v['relation']) + sets(v['targetList']) + clause('from', v.get('fromClause'), table)
    if 'whereClause' in v: o += f" (where {expr(v['whereClause'])})"
    return o + clause('returning', v.get('returningList'), target) + ')'

def delete(v):
    o = '(delete' + withc(v.get('withClause')) + ' ' + rel(v['relation']) + clause('using', v.get('usingClause'), table)
    if 'whereClause' in v: o += f" (where {expr(v['whereClause'])})"
    return o + clause('returning', v.get('returningList'), target) + ')'

def merge(v):
    o = '(merge' + withc(v.get('withClause')) + ' ' + rel(v['relation']) + ' ' + table(v['sourceRelation']) + f" (on {expr(v['joinCondition'])})"
    for w in v['mergeWhenClauses']:
        w = w['MergeWhenClause']
        o += ' (matched' if w.get('matched') else ' (not_matched'
        if 'condition' in w: o += f" (if {expr(w['condition'])})"
        c = w['commandType']
        if c == 'CMD_NOTHING': o += ' nothing'
        elif c == 'CMD_DELETE': o += ' delete'
        elif c == 'CMD_UPDATE': o += sets(w['targetList'])
        else:
            o += ' insert' + clause('columns', w.get('targetList'), lambda x: tcol(x['ResTarget'])) + over(w) + clause('values', w.get('values'), expr)
        o += ')'
    return o + ')'

def stmt(n):
    (k, v), = n.items()
    f = {'SelectStmt': query, 'InsertStmt': insert, 'UpdateStmt': update, 'DeleteStmt': delete, 'MergeStmt': merge}.get(k)
    if not f: raise No(k)
    return f(v)

def sexpr(sql):
    """The tree of the only statement of a text; None if it is refused, raises No for what has no notation."""
    try: t = parse_sql(sql)
    except Exception: return None
    if len(t) != 1: raise No('count')
    return stmt(conv(t[0].stmt))
