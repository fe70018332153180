//! stub for now
use crate::error::SyntaxError;
pub(crate) fn diagnose(_text: &str, _offset: usize) -> Option<SyntaxError> {
    None
}
pub(crate) fn unexpected(text: &str, at: usize) -> SyntaxError {
    SyntaxError::Grammar(format!("unexpected at {at} in {text}").into())
}
