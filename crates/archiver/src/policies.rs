//! Policies: how PVs are sampled, and how long their samples are kept, as `epics.policies` says.
//!
//! A PV has the policy that its row names, or the first by position whose pattern matches its name. What its row says itself
//! goes before its policy. A policy that changes is in effect for all its PVs when the archiver follows its tables next.

use std::sync::Arc;

use model::Result;
use query::client::{SqlClient, there};
use rustc_hash::FxHashMap;

use crate::names::Pattern;
use crate::registry::Method;

/// A row of `epics.policies`.
pub(crate) struct Policy {
    pub(crate) name: Arc<str>,
    pub(crate) pattern: String,
    matcher: Pattern,
    pub(crate) method: Method,
    /// Seconds of a scan.
    pub(crate) period: f64,
    /// Days after which samples are deleted.
    pub(crate) keep_days: Option<f64>,
    pub(crate) deadband: Option<f64>,
}

impl PartialEq for Policy {
    fn eq(&self, other: &Policy) -> bool {
        let bits = |number: Option<f64>| number.map(f64::to_bits);
        let all =
            |policy: &Policy| (policy.method, policy.period.to_bits(), bits(policy.keep_days), bits(policy.deadband));
        self.name == other.name && self.pattern == other.pattern && all(self) == all(other)
    }
}

/// All policies, by position.
#[derive(Default)]
pub(crate) struct Policies {
    list: Vec<Policy>,
    /// Policies whose pattern cannot be used, and why.
    unusable: Vec<(String, String)>,
    /// Positions of policies by the names of PVs that name none.
    matched: FxHashMap<Arc<str>, Option<usize>>,
}

/// PVs whose policy is kept in mind; with more, all are matched again.
const MATCHED_MAX: usize = 1 << 20;

impl Policies {
    /// Reads the table. A pattern that cannot be matches nothing.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn read(sql: &mut SqlClient) -> Result<Policies> {
        let (mut list, mut unusable) = (Vec::new(), Vec::new());
        let text =
            "SELECT name, pattern, method, period, keep_days, deadband FROM epics.policies ORDER BY position, name";
        for rows in sql.rows(text, &[]).await? {
            let (mut name, mut pattern, mut method) = (rows.texts(0)?, rows.texts(1)?, rows.texts(2)?);
            let (mut period, mut keep_days, mut deadband) = (rows.numbers(3)?, rows.numbers(4)?, rows.numbers(5)?);
            for row in 0..rows.len() {
                let (name, pattern) = (there(name.take(row))?, there(pattern.take(row))?);
                let matcher = match Pattern::new(&pattern) {
                    Ok(matcher) => matcher,
                    Err(error) => {
                        unusable.push((name, error.to_string()));
                        continue;
                    }
                };
                list.push(Policy {
                    name: name.into(),
                    pattern,
                    matcher,
                    method: Method::of(&there(method.take(row))?).unwrap_or(Method::Monitor),
                    period: there(period.take(row))?,
                    keep_days: keep_days.take(row),
                    deadband: deadband.take(row).filter(|deadband| deadband.is_finite()),
                });
            }
        }
        Ok(Policies { list, unusable, matched: FxHashMap::default() })
    }

    /// Takes over policies that have changed, and logs those that cannot be used.
    pub(crate) fn replace(&mut self, new: Policies) {
        if self.list != new.list || self.unusable != new.unusable {
            for (policy, problem) in &new.unusable {
                tracing::warn!(policy, problem, "the pattern of a policy cannot be used");
            }
            *self = new;
        }
    }

    pub(crate) fn all(&self) -> &[Policy] {
        &self.list
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Policy> {
        self.list.iter().find(|policy| &*policy.name == name)
    }

    /// The policy of a PV; `named` is that of its row.
    pub(crate) fn of(&mut self, pv: &str, named: Option<&str>) -> Option<&Policy> {
        if let Some(name) = named {
            return self.named(name);
        }
        let at = match self.matched.get(pv) {
            Some(at) => *at,
            None => {
                let at = self.list.iter().position(|policy| policy.matcher.matches(pv));
                if self.matched.len() >= MATCHED_MAX {
                    self.matched.clear();
                }
                self.matched.insert(pv.into(), at);
                at
            }
        };
        at.map(|at| &self.list[at])
    }
}
