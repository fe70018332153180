//! All statements.

use super::{
    AddIdentity, AlterKeyspace, AlterRole, AlterTable, AlterType, AlterView, Batch,
    CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace, CreateRole, CreateTable,
    CreateTrigger, CreateType, CreateView, Delete, Describe, DropAggregate, DropFunction,
    DropIdentity, DropIndex, DropKeyspace, DropRole, DropTable, DropTrigger, DropType, DropView,
    GrantPermissions, GrantRole, Insert, ListPermissions, ListRoles, Name, RevokePermissions,
    RevokeRole, Select, Truncate, Update,
};

/// A statement as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Use(Name),
    Select(Box<Select>),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    Batch(Batch),
    Truncate(Truncate),
    CreateKeyspace(CreateKeyspace),
    AlterKeyspace(AlterKeyspace),
    DropKeyspace(DropKeyspace),
    CreateTable(CreateTable),
    AlterTable(AlterTable),
    DropTable(DropTable),
    CreateType(CreateType),
    AlterType(AlterType),
    DropType(DropType),
    CreateIndex(CreateIndex),
    DropIndex(DropIndex),
    CreateView(CreateView),
    AlterView(AlterView),
    DropView(DropView),
    CreateFunction(CreateFunction),
    DropFunction(DropFunction),
    CreateAggregate(CreateAggregate),
    DropAggregate(DropAggregate),
    CreateTrigger(CreateTrigger),
    DropTrigger(DropTrigger),
    CreateRole(CreateRole),
    AlterRole(AlterRole),
    DropRole(DropRole),
    ListRoles(ListRoles),
    ListUsers,
    GrantRole(GrantRole),
    RevokeRole(RevokeRole),
    GrantPermissions(GrantPermissions),
    RevokePermissions(RevokePermissions),
    ListPermissions(ListPermissions),
    AddIdentity(AddIdentity),
    DropIdentity(DropIdentity),
    Describe(Describe),
    /// `EXPLAIN statement`, which Cassandra does not have. Never nested.
    Explain(Box<Statement>),
}

/// What `parse` gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub statement: Statement,
    /// The bind markers, left to right: the name of `:name`, nothing for `?`.
    pub markers: Vec<Option<Name>>,
}
