//! Selectors with their columns and functions looked up, but without settled types.

use std::borrow::Cow;
use std::sync::Arc;

use cql::ast::{self, CellFunction, FunctionName, Name, NativeType, Term};
use types::CqlType;

use crate::assign;
use crate::error::{PlanError, invalid};
use crate::expression::{
    Scope, cast_function, common_type, compatible, exact, fit, negation_function,
    operator_function, raw_text, raw_type_text, resolve_type,
};
use crate::function::{self, Argument, Call, Fit, Function};
use crate::restriction::unknown_column;

/// A selector whose names are known.
pub(super) enum Selectable<'a> {
    Column(usize),
    Term(&'a Term),
    Call { function: Function, arguments: Vec<Typed<'a>> },
    Cell { function: CellFunction, column: usize, argument: Box<Typed<'a>> },
    Cast { argument: Box<Typed<'a>>, target: NativeType },
    Field { receiver: Box<Typed<'a>>, field: &'a Name },
    Element { receiver: Box<Typed<'a>>, key: &'a Term },
    Slice { receiver: Box<Typed<'a>>, from: Option<&'a Term>, to: Option<&'a Term> },
    Parenthesized(Vec<Typed<'a>>),
    Array(Vec<Typed<'a>>),
    Set(Vec<Typed<'a>>),
    MapOrUser(&'a [(ast::Selector, ast::Selector)]),
    Hint { text: String, ty: CqlType, inner: Box<Typed<'a>> },
}

/// A selectable together with where its names come from.
pub(super) struct Typed<'a> {
    pub(super) selectable: Selectable<'a>,
    pub(super) scope: &'a Scope<'a>,
}

/// Looks up the names of a selector.
pub(super) fn look_up<'a>(
    selector: &'a ast::Selector,
    scope: &'a Scope<'a>,
) -> Result<Typed<'a>, PlanError> {
    let one = |selector: &'a ast::Selector| look_up(selector, scope).map(Box::new);
    let all = |selectors: &'a [ast::Selector]| -> Result<Vec<Typed<'a>>, PlanError> {
        selectors.iter().map(|selector| look_up(selector, scope)).collect()
    };
    let selectable = match selector {
        ast::Selector::Column(name) => Selectable::Column(column(name, scope)?),
        ast::Selector::Term(term) => Selectable::Term(term),
        ast::Selector::CountRows => {
            let name = FunctionName { keyspace: None, name: Name::from("count_rows") };
            call(&name, &name, Vec::new(), scope)?
        }
        ast::Selector::Function { name, arguments } => {
            let arguments = all(arguments)?;
            call(name, name, arguments, scope)?
        }
        ast::Selector::Operation { left, operator, right } => {
            let arguments = vec![look_up(left, scope)?, look_up(right, scope)?];
            let name = operator_function(*operator);
            call(&name, &name, arguments, scope)?
        }
        ast::Selector::Negation(inner) => {
            let name = negation_function();
            call(&name, &name, vec![look_up(inner, scope)?], scope)?
        }
        ast::Selector::Cell { function, argument } => Selectable::Cell {
            function: *function,
            column: root_column(argument, scope)?,
            argument: one(argument)?,
        },
        ast::Selector::Cast { selector, target } => {
            Selectable::Cast { argument: one(selector)?, target: *target }
        }
        ast::Selector::TypeHint { hint, selector } => {
            let inner = one(selector)?;
            let ty = resolve_type(hint, &scope.keyspace, scope.schema)?.freeze();
            Selectable::Hint { text: raw_type_text(hint, &scope.keyspace), ty, inner }
        }
        ast::Selector::Field { receiver, field } => {
            Selectable::Field { receiver: one(receiver)?, field }
        }
        ast::Selector::Element { receiver, key } => {
            Selectable::Element { receiver: one(receiver)?, key }
        }
        ast::Selector::Slice { receiver, from, to } => {
            Selectable::Slice { receiver: one(receiver)?, from: from.as_ref(), to: to.as_ref() }
        }
        ast::Selector::Parenthesized(parts) => Selectable::Parenthesized(all(parts)?),
        ast::Selector::List(parts) => Selectable::Array(all(parts)?),
        ast::Selector::Set(parts) => Selectable::Set(all(parts)?),
        ast::Selector::MapOrUserType(entries) => Selectable::MapOrUser(entries),
    };
    Ok(Typed { selectable, scope })
}

fn column(name: &Name, scope: &Scope<'_>) -> Result<usize, PlanError> {
    match scope.table.column(name) {
        Some((index, _)) => Ok(index),
        None => Err(unknown_column(name, &scope.table)),
    }
}

/// The column that an element, slice or field is of.
fn root_column(selector: &ast::Selector, scope: &Scope<'_>) -> Result<usize, PlanError> {
    match selector {
        ast::Selector::Column(name) => column(name, scope),
        ast::Selector::Field { receiver, .. }
        | ast::Selector::Element { receiver, .. }
        | ast::Selector::Slice { receiver, .. } => root_column(receiver, scope),
        _ => invalid!("Only columns have a write time and a time to live"),
    }
}

/// A call in a select clause. `written` is the name that messages show.
fn call<'a>(
    name: &FunctionName,
    written: &FunctionName,
    mut arguments: Vec<Typed<'a>>,
    scope: &'a Scope<'a>,
) -> Result<Selectable<'a>, PlanError> {
    // COUNT(1) is COUNT(*); every type has a COUNT, so the constant alone would be ambiguous.
    let is_native = name.keyspace.as_ref().is_none_or(|keyspace| keyspace == "system");
    let is_count_rows = is_native
        && &*name.name == "count"
        && matches!(
            arguments.as_slice(),
            [Typed { selectable: Selectable::Term(Term::Constant(_)), .. }]
        );
    if is_count_rows {
        arguments.clear();
    }
    let count_rows =
        FunctionName { keyspace: Some(Name::from("system")), name: Name::from("count_rows") };
    let name = if is_count_rows { &count_rows } else { name };
    let views: Vec<&dyn Argument> = arguments.iter().map(|arg| arg as &dyn Argument).collect();
    let call = Call { name, arguments: &views, receiver: None, table: Some(&scope.table) };
    match function::resolve(&call)? {
        Some(function) => Ok(Selectable::Call { function, arguments }),
        None => invalid!("Unknown function '{written}'"),
    }
}

/// The function of a CAST, which the argument's type decides.
pub(super) fn cast_call(
    argument: &Typed<'_>,
    target: NativeType,
) -> Result<Option<Function>, PlanError> {
    let name = cast_function(target);
    let arguments: [&dyn Argument; 1] = [argument];
    function::resolve(&Call {
        name: &name,
        arguments: &arguments,
        receiver: None,
        table: Some(&argument.scope.table),
    })
}

impl Typed<'_> {
    /// The type it has for certain.
    pub(super) fn exact_type(&self) -> Option<CqlType> {
        match &self.selectable {
            Selectable::Column(index) => {
                self.scope.table.columns.get(*index).map(|column| column.cql_type.clone())
            }
            Selectable::Term(term) => exact(term, self.scope),
            Selectable::Call { function, .. } => Some(function.signature().result.clone()),
            Selectable::Cell { function, column, .. } => {
                let ty = cell_type(*function);
                let column = self.scope.table.columns.get(*column)?;
                if column.cql_type.is_multi_cell() && *function != CellFunction::MaxWriteTime {
                    Some(CqlType::List { element: Arc::new(ty), frozen: true })
                } else {
                    Some(ty)
                }
            }
            Selectable::Cast { target, .. } => CqlType::native(target.name()),
            // Cassandra does not look through the order of a column.
            Selectable::Field { receiver, .. }
            | Selectable::Element { receiver, .. }
            | Selectable::Slice { receiver, .. }
                if receiver.is_descending_column() =>
            {
                None
            }
            Selectable::Field { receiver, field } => match receiver.exact_type()? {
                CqlType::User { definition, .. } => definition
                    .fields
                    .iter()
                    .find(|(name, _)| **name == ***field)
                    .map(|(_, ty)| ty.clone()),
                _ => None,
            },
            Selectable::Element { receiver, .. } => match receiver.exact_type()? {
                CqlType::Map { value, .. } => Some(value.as_ref().clone()),
                CqlType::Set { element, .. } | CqlType::List { element, .. } => {
                    Some(element.as_ref().clone())
                }
                _ => None,
            },
            Selectable::Slice { receiver, .. } => {
                receiver.exact_type().filter(CqlType::is_collection)
            }
            Selectable::Parenthesized(parts) if parts.len() == 1 => None,
            Selectable::Parenthesized(parts) => {
                let frozen = |part: &Typed<'_>| part.exact_type().map(|ty| ty.freeze());
                let parts: Option<Vec<CqlType>> = parts.iter().map(frozen).collect();
                Some(CqlType::Tuple(parts?.into()))
            }
            Selectable::Array(parts) => {
                let element = parts.iter().find_map(Typed::exact_type)?;
                Some(CqlType::List { element: Arc::new(element), frozen: true })
            }
            Selectable::Set(parts) => {
                let element = parts.iter().find_map(Typed::exact_type)?;
                Some(CqlType::Set { element: Arc::new(element), frozen: true })
            }
            Selectable::MapOrUser(_) => None,
            Selectable::Hint { ty, .. } => Some(ty.clone()),
        }
    }

    /// Whether it, or a part of it, is a column that passes the test.
    pub(super) fn selects(&self, test: &dyn Fn(usize) -> bool) -> bool {
        match &self.selectable {
            Selectable::Column(index) => test(*index),
            Selectable::Term(_) => false,
            Selectable::Call { arguments, .. } => arguments.iter().any(|arg| arg.selects(test)),
            Selectable::Cell { argument, .. } | Selectable::Cast { argument, .. } => {
                argument.selects(test)
            }
            Selectable::Field { receiver, .. }
            | Selectable::Element { receiver, .. }
            | Selectable::Slice { receiver, .. } => receiver.selects(test),
            Selectable::Parenthesized(parts)
            | Selectable::Array(parts)
            | Selectable::Set(parts) => parts.iter().any(|part| part.selects(test)),
            Selectable::MapOrUser(entries) => entries.iter().any(|(key, value)| {
                let selects = |selector: &ast::Selector| {
                    look_up(selector, self.scope).is_ok_and(|typed| typed.selects(test))
                };
                // Cassandra has the second half upside down.
                !matches!(key, ast::Selector::Column(_)) && selects(key) || !selects(value)
            }),
            Selectable::Hint { inner, .. } => inner.selects(test),
        }
    }

    fn list_fit(parts: &[Typed<'_>], element: &CqlType) -> Fit {
        if parts.is_empty() {
            return Fit::Weak;
        }
        Fit::all(parts.iter().map(|part| part.fit(element)))
    }

    fn map_or_user_fit(
        &self,
        entries: &[(ast::Selector, ast::Selector)],
        receiver: &CqlType,
    ) -> Fit {
        let fits = |selector: &ast::Selector, ty: &CqlType| match look_up(selector, self.scope) {
            Ok(typed) => typed.fit(ty),
            Err(_) => Fit::No,
        };
        match receiver {
            CqlType::Map { key, value, .. } => {
                Fit::all(entries.iter().flat_map(|(k, v)| [fits(k, key), fits(v, value)]))
            }
            CqlType::User { definition, .. } => {
                let all = entries.iter().all(|(name, value)| {
                    let ast::Selector::Column(name) = name else { return false };
                    let field = self.scope.field_of(definition, name);
                    field.is_some_and(|(_, ty)| fits(value, ty).is_assignable())
                });
                if all { Fit::Weak } else { Fit::No }
            }
            _ => Fit::No,
        }
    }
}

/// The type of what `writetime` and its siblings give for one cell.
pub(super) fn cell_type(function: CellFunction) -> CqlType {
    match function {
        CellFunction::WriteTime | CellFunction::MaxWriteTime => CqlType::BigInt,
        CellFunction::Ttl => CqlType::Int,
    }
}

impl Argument for Typed<'_> {
    fn fit(&self, receiver: &CqlType) -> Fit {
        match &self.selectable {
            Selectable::Term(term) => fit(term, receiver, self.scope),
            Selectable::Parenthesized(parts) => {
                let types: Vec<&CqlType> = match (receiver, parts.as_slice()) {
                    (CqlType::Tuple(types), _) => types.iter().collect(),
                    (CqlType::User { .. }, [only]) => return only.fit(receiver),
                    (CqlType::User { definition, .. }, _) => {
                        definition.fields.iter().map(|(_, ty)| ty).collect()
                    }
                    (_, [only]) => return only.fit(receiver),
                    _ => return Fit::No,
                };
                let fits = parts.len() <= types.len()
                    && parts.iter().zip(types).all(|(part, ty)| part.fit(ty).is_assignable());
                if fits { Fit::Weak } else { Fit::No }
            }
            Selectable::Array(parts) => match receiver {
                CqlType::List { element, .. } | CqlType::Vector { element, .. } => {
                    Typed::list_fit(parts, element)
                }
                _ => Fit::No,
            },
            Selectable::Set(parts) => match receiver {
                CqlType::Set { element, .. } => Typed::list_fit(parts, element),
                CqlType::Map { .. } if parts.is_empty() => Fit::Weak,
                _ => Fit::No,
            },
            Selectable::MapOrUser(entries) => self.map_or_user_fit(entries, receiver),
            Selectable::Hint { ty, .. } => assign::fit(ty, receiver),
            _ => match self.exact_type() {
                // What has many cells is not the frozen value which a hint or a tuple asks for.
                Some(ty) if ty.is_multi_cell() && receiver.is_frozen() => Fit::No,
                Some(ty) => assign::fit(&ty, receiver),
                None => Fit::No,
            },
        }
    }

    fn compatible_type(&self) -> Option<CqlType> {
        match &self.selectable {
            Selectable::Term(term) => compatible(term, self.scope),
            Selectable::Parenthesized(parts) if parts.len() == 1 => None,
            Selectable::Parenthesized(parts) => {
                let frozen = |part: &Typed<'_>| part.compatible_type().map(|ty| ty.freeze());
                let parts: Option<Vec<CqlType>> = parts.iter().map(frozen).collect();
                Some(CqlType::Tuple(parts?.into()))
            }
            Selectable::Array(parts) => {
                let element = common_type(parts.iter().filter_map(Argument::compatible_type))?;
                Some(CqlType::List { element: Arc::new(element), frozen: true })
            }
            Selectable::Set(parts) => {
                let element = common_type(parts.iter().filter_map(Argument::compatible_type))?;
                Some(CqlType::Set { element: Arc::new(element), frozen: true })
            }
            _ => self.exact_type(),
        }
    }

    fn text(&self) -> String {
        let join = |parts: &[Typed<'_>]| {
            parts.iter().map(Argument::text).collect::<Vec<String>>().join(", ")
        };
        match &self.selectable {
            Selectable::Column(index) => {
                self.scope.table.columns.get(*index).map_or(String::new(), |c| c.name.to_string())
            }
            Selectable::Term(term) => raw_text(term),
            Selectable::Call { function, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(Argument::text).collect();
                function.column_name(&arguments)
            }
            Selectable::Cell { function, argument, .. } => {
                format!("{}({})", function.name(), argument.text())
            }
            Selectable::Cast { argument, target } => {
                format!("cast({} as {})", argument.text(), target.name())
            }
            Selectable::Field { receiver, field } => format!("{}.{field}", receiver.text()),
            Selectable::Element { receiver, key } => {
                format!("{}[{}]", receiver.text(), raw_text(key))
            }
            Selectable::Slice { receiver, from, to } => {
                let end =
                    |term: &Option<&Term>| term.map_or(Cow::Borrowed(""), |t| raw_text(t).into());
                format!("{}[{}..{}]", receiver.text(), end(from), end(to))
            }
            Selectable::Parenthesized(parts) => format!("({})", join(parts)),
            Selectable::Array(parts) => format!("[{}]", join(parts)),
            Selectable::Set(parts) => format!("{{{}}}", join(parts)),
            Selectable::MapOrUser(entries) => {
                let text = |selector: &ast::Selector| match selector {
                    ast::Selector::Column(name) => name.to_string(),
                    other => look_up(other, self.scope).map_or(String::new(), |t| t.text()),
                };
                let entries: Vec<String> =
                    entries.iter().map(|(k, v)| format!("{}: {}", text(k), text(v))).collect();
                format!("{{{}}}", entries.join(", "))
            }
            Selectable::Hint { text, inner, .. } => format!("({text}){}", inner.text()),
        }
    }

    fn is_marker(&self) -> bool {
        matches!(self.selectable, Selectable::Term(Term::Marker(_)))
    }

    fn is_descending_column(&self) -> bool {
        let Selectable::Column(index) = &self.selectable else { return false };
        self.scope.table.columns.get(*index).is_some_and(schema::Column::is_descending)
    }

    fn is_composed(&self) -> bool {
        match &self.selectable {
            Selectable::Parenthesized(parts) => parts.len() > 1,
            Selectable::Set(_) => true,
            _ => false,
        }
    }

    fn array_literal_length(&self) -> Option<usize> {
        match &self.selectable {
            Selectable::Array(parts) => Some(parts.len()),
            _ => None,
        }
    }
}
