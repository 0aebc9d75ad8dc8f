//! Resolution of operators.

use model::{Error, Result, SqlState};

use crate::select::{Candidate, Failure};
use crate::tables::{Catalog, Operator};
use crate::types::TypeId;

/// An operator that was chosen, and the types that its operands become.
#[derive(Clone, Copy, Debug)]
pub struct OperatorCall<'a> {
    /// The operator.
    pub operator: &'a Operator,
    /// Type of the left operand; prefix operators have none.
    pub left: Option<TypeId>,
    /// Type of the right operand.
    pub right: TypeId,
    /// Type of the result.
    pub result: TypeId,
}

impl Catalog {
    /// The operator that `name` means between operands of these types, or before one; literals are of
    /// [`TypeId::UNKNOWN`].
    ///
    /// # Errors
    /// 42883 if there is none, 42725 if several fit equally well, 42804 if polymorphic parameters do not fit.
    pub fn operator(&self, name: &str, left: Option<TypeId>, right: TypeId) -> Result<OperatorCall<'_>> {
        let found = match left {
            Some(left) => self.binary(name, left, right),
            None => self.prefix(name, right),
        };
        let operator = found.map_err(|failure| self.no_operator(failure, name, left, right))?;
        let (given, declared): (Vec<TypeId>, Vec<TypeId>) = match (left, operator.left) {
            (Some(left), Some(declared)) => (vec![left, right], vec![declared, operator.right]),
            _ => (vec![right], vec![operator.right]),
        };
        let (parameters, result) = self.resolve_polymorphic(&given, &declared, operator.result)?;
        let right = *parameters.last().unwrap_or(&operator.right);
        Ok(OperatorCall { operator, left: operator.left.map(|_| parameters[0]), right, result })
    }

    fn binary(&self, name: &str, left: TypeId, right: TypeId) -> Result<&Operator, Failure> {
        // A literal beside an operand of known type is first tried as that type.
        let (assumed_left, assumed_right) = match (left, right) {
            (TypeId::UNKNOWN, right) => (right, right),
            (left, TypeId::UNKNOWN) => (left, left),
            both => both,
        };
        let exact = self.operator_exact(name, Some(assumed_left), assumed_right);
        let of_base = || {
            let base = self.base_type(assumed_left);
            let is_assumed = left == TypeId::UNKNOWN || right == TypeId::UNKNOWN;
            (is_assumed && base != assumed_left).then(|| self.operator_exact(name, Some(base), base)).flatten()
        };
        if let Some(operator) = exact.or_else(of_base) {
            return Ok(operator);
        }
        let candidates = self
            .operators_named(name, false)
            .map(|item| Candidate { item, parameters: item.left.into_iter().chain([item.right]).collect() });
        self.choose(&[left, right], candidates.collect()).map(|chosen| chosen.item)
    }

    fn prefix(&self, name: &str, operand: TypeId) -> Result<&Operator, Failure> {
        if let Some(operator) = self.operator_exact(name, None, operand) {
            return Ok(operator);
        }
        let candidates = self.operators_named(name, true);
        let candidates = candidates.map(|item| Candidate { item, parameters: vec![item.right] });
        self.choose(&[operand], candidates.collect()).map(|chosen| chosen.item)
    }

    fn no_operator(&self, failure: Failure, name: &str, left: Option<TypeId>, right: TypeId) -> Error {
        let left = left.map_or(String::new(), |left| format!("{} ", self.type_name(left)));
        let operands = format!("{left}{name} {}", self.type_name(right));
        match failure {
            Failure::None => {
                let types = if left.is_empty() { "type" } else { "types" };
                let hint = format!(
                    "No operator matches the given name and argument {types}. You might need to add {}.",
                    if left.is_empty() { "an explicit type cast" } else { "explicit type casts" }
                );
                Error::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {operands}")).with_hint(hint)
            }
            Failure::Ambiguous => {
                let hint = "Could not choose a best candidate operator. You might need to add explicit type casts.";
                Error::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {operands}")).with_hint(hint)
            }
        }
    }
}
