//! Roles, users, identities and permissions.

use super::cursor::{Failure, Parse, Parser, unescape, unquote};
use crate::ast::{
    AccessList, AddIdentity, AlterRole, CreateRole, DropIdentity, DropRole, GrantPermissions,
    GrantRole, ListPermissions, ListRoles, Permission, Resource, RevokePermissions, RevokeRole,
    RoleOptions, Statement,
};
use crate::lexer::Token;

impl Parser<'_> {
    /// A role: an identifier or a string.
    fn role_name(&mut self) -> Parse<Box<str>> {
        if self.peek() == Token::StringLiteral {
            return self.string();
        }
        Ok(self.unbound_ident("role")?.into())
    }

    /// A user or identity: keeps its case, and may not be in double quotes.
    fn verbatim_name(&mut self, refusal: &str) -> Parse<Box<str>> {
        let name = match self.peek() {
            Token::Name => self.slice().into(),
            Token::StringLiteral => unquote(self.slice()).into(),
            Token::QuotedName => {
                self.record(refusal);
                unescape(self.slice(), '"').into()
            }
            _ => return Err(Failure::Grammar),
        };
        self.advance();
        Ok(name)
    }

    fn user_name(&mut self) -> Parse<Box<str>> {
        self.verbatim_name(
            "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE",
        )
    }

    fn identity(&mut self) -> Parse<Box<str>> {
        self.verbatim_name("Quoted strings are are not supported for identity")
    }

    pub(super) fn grant(&mut self) -> Parse<Statement> {
        self.expect(Token::Grant)?;
        if !self.is_permission_clause() {
            let role = self.role_name()?;
            self.expect(Token::To)?;
            return Ok(Statement::GrantRole(GrantRole { role, grantee: self.role_name()? }));
        }
        let permissions = self.permissions()?;
        self.expect(Token::On)?;
        let resource = self.resource()?;
        self.expect(Token::To)?;
        let role = self.role_name()?;
        let permissions = self.applicable(permissions, &resource)?;
        Ok(Statement::GrantPermissions(GrantPermissions { permissions, resource, role }))
    }

    pub(super) fn revoke(&mut self) -> Parse<Statement> {
        self.expect(Token::Revoke)?;
        if !self.is_permission_clause() {
            let role = self.role_name()?;
            self.expect(Token::From)?;
            return Ok(Statement::RevokeRole(RevokeRole { role, revokee: self.role_name()? }));
        }
        let permissions = self.permissions()?;
        self.expect(Token::On)?;
        let resource = self.resource()?;
        self.expect(Token::From)?;
        let role = self.role_name()?;
        let permissions = self.applicable(permissions, &resource)?;
        Ok(Statement::RevokePermissions(RevokePermissions { permissions, resource, role }))
    }

    /// ALL, UNMASK and SELECT_MASKED may name roles as well; TO and FROM tell.
    fn is_permission_clause(&self) -> bool {
        permission(self.peek()).is_some() && !matches!(self.peek_at(1), Token::To | Token::From)
            || self.peek() == Token::All && !matches!(self.peek_at(1), Token::To | Token::From)
    }

    pub(super) fn list(&mut self) -> Parse<Statement> {
        self.expect(Token::List)?;
        match self.peek() {
            Token::Users => {
                self.advance();
                Ok(Statement::ListUsers)
            }
            Token::Roles => {
                self.advance();
                let role = if self.eat(Token::Of) { Some(self.role_name()?) } else { None };
                let recursive = !self.eat(Token::Norecursive);
                Ok(Statement::ListRoles(ListRoles { role, recursive }))
            }
            _ => {
                let permissions = self.permissions()?;
                let resource = if self.eat(Token::On) { Some(self.resource()?) } else { None };
                let role = if self.eat(Token::Of) { Some(self.role_name()?) } else { None };
                let recursive = !self.eat(Token::Norecursive);
                let list = ListPermissions { permissions, resource, role, recursive };
                Ok(Statement::ListPermissions(list))
            }
        }
    }

    fn permissions(&mut self) -> Parse<Vec<Permission>> {
        if self.eat(Token::All) {
            self.eat(Token::Permissions);
            return Ok(Permission::ALL.to_vec());
        }
        let mut permissions = self.comma_list(|parser| {
            let permission = permission(parser.peek()).ok_or(Failure::Grammar)?;
            parser.advance();
            parser.eat(Token::Permission);
            Ok(permission)
        })?;
        permissions.sort_unstable();
        permissions.dedup();
        Ok(permissions)
    }

    fn resource(&mut self) -> Parse<Resource> {
        let next = self.peek_at(1);
        // These words may be names of keyspaces or tables too.
        let is_name = matches!(next, Token::To | Token::From | Token::Of | Token::Norecursive)
            || matches!(next, Token::Dot | Token::End | Token::Semicolon);
        match self.peek() {
            Token::All if !is_name => self.whole_resource(),
            Token::Keyspace => {
                self.advance();
                Ok(Resource::Keyspace(self.keyspace_name()?))
            }
            Token::Table => {
                self.advance();
                Ok(Resource::Table(self.table_name()?))
            }
            Token::Role if !is_name => {
                self.advance();
                Ok(Resource::Role(self.role_name()?))
            }
            Token::Function if !is_name => {
                self.advance();
                let name = self.function_name()?;
                let argument_types = self.parenthesized_or_empty(Self::comparator_type)?;
                if name.keyspace.is_none() {
                    return self.refuse_invalid(
                        "In this context function name must be explictly qualified by a keyspace",
                    );
                }
                Ok(Resource::Function { name, argument_types })
            }
            Token::Mbean | Token::Mbeans if !is_name => {
                let plural = self.peek() == Token::Mbeans;
                self.advance();
                let name = self.string()?;
                self.check_mbean(&name, plural);
                Ok(Resource::MBean(name))
            }
            _ => Ok(Resource::Table(self.table_name()?)),
        }
    }

    fn whole_resource(&mut self) -> Parse<Resource> {
        self.expect(Token::All)?;
        let token = self.peek();
        self.advance();
        match token {
            Token::Keyspaces => Ok(Resource::AllKeyspaces),
            Token::Roles => Ok(Resource::AllRoles),
            Token::Mbeans => Ok(Resource::AllMBeans),
            Token::Tables => {
                self.expect_all(&[Token::In, Token::Keyspace])?;
                Ok(Resource::AllTables(self.keyspace_name()?))
            }
            Token::Functions if self.eat_clause(&[Token::In, Token::Keyspace])? => {
                Ok(Resource::AllFunctionsIn(self.keyspace_name()?))
            }
            Token::Functions => Ok(Resource::AllFunctions),
            _ => Err(Failure::Grammar),
        }
    }

    fn check_mbean(&mut self, name: &str, plural: bool) {
        let keys = name.split_once(':').map(|(_, keys)| keys);
        match keys {
            _ if name.is_empty() => self.record("Empty JMX object name supplied"),
            _ if name == "*:*" => {
                self.record("Please use ALL MBEANS instead of wildcard pattern");
            }
            Some(keys) if keys == "*" || keys.contains('=') => {
                if plural && !name.contains(['*', '?']) {
                    self.record(format!(
                        "Plural form used, but non-pattern JMX object name specified ({name})"
                    ));
                }
            }
            _ => self.record(format!("{name} is not a valid JMX object name")),
        }
    }

    /// Those of the permissions that make sense for the resource.
    fn applicable(
        &mut self,
        mut permissions: Vec<Permission>,
        resource: &Resource,
    ) -> Parse<Vec<Permission>> {
        if let Resource::Function { name, .. } = resource
            && name.keyspace.as_deref() == Some("system")
        {
            return self
                .refuse_invalid("Altering permissions on builtin functions is not supported");
        }
        permissions.retain(|permission| resource.accepts(*permission));
        if permissions.is_empty() {
            self.record(format!(
                "Resource type {} does not support any of the requested permissions",
                resource.class_name()
            ));
        }
        Ok(permissions)
    }

    pub(super) fn create_role(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Create, Token::Role])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        Ok(Statement::CreateRole(CreateRole { name, if_not_exists, options }))
    }

    pub(super) fn alter_role(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Alter, Token::Role])?;
        let if_exists = self.if_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        Ok(Statement::AlterRole(AlterRole { name, if_exists, options }))
    }

    pub(super) fn drop_role(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Role])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropRole(DropRole { name: self.role_name()?, if_exists }))
    }

    pub(super) fn create_user(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Create, Token::User])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_name()?;
        let mut options = self.user_options()?;
        options.login = Some(true);
        options.superuser.get_or_insert(false);
        Ok(Statement::CreateRole(CreateRole { name, if_not_exists, options }))
    }

    pub(super) fn alter_user(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Alter, Token::User])?;
        let if_exists = self.if_exists()?;
        let name = self.user_name()?;
        let options = self.user_options()?;
        Ok(Statement::AlterRole(AlterRole { name, if_exists, options }))
    }

    pub(super) fn drop_user(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::User])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropRole(DropRole { name: self.user_name()?, if_exists }))
    }

    /// `[WITH [HASHED] PASSWORD 'p'] [SUPERUSER | NOSUPERUSER]`, without equal signs.
    fn user_options(&mut self) -> Parse<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat(Token::With) {
            let hashed = self.eat(Token::Hashed);
            self.expect(Token::Password)?;
            let password = Some(self.string()?);
            if hashed {
                options.hashed_password = password;
            } else {
                options.password = password;
            }
        }
        options.superuser = match self.peek() {
            Token::Superuser => Some(true),
            Token::Nosuperuser => Some(false),
            _ => return Ok(options),
        };
        self.advance();
        Ok(options)
    }

    fn role_options(&mut self) -> Parse<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.eat(Token::With) {
            return Ok(options);
        }
        self.role_option(&mut options)?;
        while self.eat(Token::And) {
            self.role_option(&mut options)?;
        }
        if options.password.is_some() && options.hashed_password.is_some() {
            return self.refuse("Options 'password' and 'hashed password' are mutually exclusive");
        }
        Ok(options)
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Parse<()> {
        let token = self.peek();
        self.advance();
        match token {
            Token::Password => {
                self.expect(Token::Equal)?;
                let value = self.string()?;
                self.set_once(&mut options.password, value, "PASSWORD")
            }
            Token::Hashed => {
                self.expect_all(&[Token::Password, Token::Equal])?;
                let value = self.string()?;
                self.set_once(&mut options.hashed_password, value, "HASHED_PASSWORD")
            }
            Token::Options => {
                self.expect(Token::Equal)?;
                let value = self.property_map()?;
                self.set_once(&mut options.custom, value, "OPTIONS")
            }
            Token::Superuser => {
                let value = self.equal_boolean()?;
                self.set_once(&mut options.superuser, value, "SUPERUSER")
            }
            Token::Login => {
                let value = self.equal_boolean()?;
                self.set_once(&mut options.login, value, "LOGIN")
            }
            Token::Access => self.access(options),
            _ => Err(Failure::Grammar),
        }
    }

    fn set_once<T>(&self, option: &mut Option<T>, value: T, name: &str) -> Parse<()> {
        if option.replace(value).is_some() {
            return self.refuse(format!("Multiple definition for property '{name}'"));
        }
        Ok(())
    }

    fn equal_boolean(&mut self) -> Parse<bool> {
        self.expect(Token::Equal)?;
        let value = self.slice().eq_ignore_ascii_case("true");
        self.expect(Token::BooleanLiteral)?;
        Ok(value)
    }

    /// `ACCESS TO [ALL] DATACENTERS ...` and `ACCESS FROM [ALL] CIDRS ...`. Lists add up.
    fn access(&mut self, options: &mut RoleOptions) -> Parse<()> {
        let (list, word) = if self.eat(Token::To) {
            (&mut options.datacenters, Token::Datacenters)
        } else {
            self.expect(Token::From)?;
            (&mut options.cidr_groups, Token::Cidrs)
        };
        if self.eat(Token::All) {
            self.expect(word)?;
            *list = Some(AccessList::All);
            return Ok(());
        }
        self.expect_all(&[word, Token::LeftBrace])?;
        let mut names = self.comma_list(Self::string)?;
        self.expect(Token::RightBrace)?;
        match list {
            Some(AccessList::All) => {}
            Some(AccessList::Only(known)) => known.append(&mut names),
            None => *list = Some(AccessList::Only(names)),
        }
        Ok(())
    }

    pub(super) fn add_identity(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Add, Token::Identity])?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.identity()?;
        self.expect_all(&[Token::To, Token::Role])?;
        let role = self.identity()?;
        Ok(Statement::AddIdentity(AddIdentity { identity, role, if_not_exists }))
    }

    pub(super) fn drop_identity(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Identity])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropIdentity(DropIdentity { identity: self.identity()?, if_exists }))
    }
}

fn permission(token: Token) -> Option<Permission> {
    Some(match token {
        Token::Create => Permission::Create,
        Token::Alter => Permission::Alter,
        Token::Drop => Permission::Drop,
        Token::Select => Permission::Select,
        Token::Modify => Permission::Modify,
        Token::Authorize => Permission::Authorize,
        Token::Describe => Permission::Describe,
        Token::Execute => Permission::Execute,
        Token::Unmask => Permission::Unmask,
        Token::SelectMasked => Permission::SelectMasked,
        _ => return None,
    })
}
