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
        if self.peek() == Token::String {
            return self.string();
        }
        Ok(self.unbound_ident("role")?.into())
    }

    /// A user or identity: keeps its case, and may not be in double quotes.
    fn verbatim_name(&mut self, refusal: &str) -> Parse<Box<str>> {
        let name = match self.peek() {
            Token::Ident => self.slice().into(),
            Token::String => unquote(self.slice()).into(),
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
        self.expect(Token::KGrant)?;
        if !self.is_permission_clause() {
            let role = self.role_name()?;
            self.expect(Token::KTo)?;
            return Ok(Statement::GrantRole(GrantRole { role, grantee: self.role_name()? }));
        }
        let permissions = self.permissions()?;
        self.expect(Token::KOn)?;
        let resource = self.resource()?;
        self.expect(Token::KTo)?;
        let role = self.role_name()?;
        let permissions = self.applicable(permissions, &resource)?;
        Ok(Statement::GrantPermissions(GrantPermissions { permissions, resource, role }))
    }

    pub(super) fn revoke(&mut self) -> Parse<Statement> {
        self.expect(Token::KRevoke)?;
        if !self.is_permission_clause() {
            let role = self.role_name()?;
            self.expect(Token::KFrom)?;
            return Ok(Statement::RevokeRole(RevokeRole { role, revokee: self.role_name()? }));
        }
        let permissions = self.permissions()?;
        self.expect(Token::KOn)?;
        let resource = self.resource()?;
        self.expect(Token::KFrom)?;
        let role = self.role_name()?;
        let permissions = self.applicable(permissions, &resource)?;
        Ok(Statement::RevokePermissions(RevokePermissions { permissions, resource, role }))
    }

    /// ALL, UNMASK and SELECT_MASKED may name roles as well; TO and FROM tell.
    fn is_permission_clause(&self) -> bool {
        permission(self.peek()).is_some() && !matches!(self.peek_at(1), Token::KTo | Token::KFrom)
            || self.peek() == Token::KAll && !matches!(self.peek_at(1), Token::KTo | Token::KFrom)
    }

    pub(super) fn list(&mut self) -> Parse<Statement> {
        self.expect(Token::KList)?;
        match self.peek() {
            Token::KUsers => {
                self.advance();
                Ok(Statement::ListUsers)
            }
            Token::KRoles => {
                self.advance();
                let role = if self.eat(Token::KOf) { Some(self.role_name()?) } else { None };
                let recursive = !self.eat(Token::KNorecursive);
                Ok(Statement::ListRoles(ListRoles { role, recursive }))
            }
            _ => {
                let permissions = self.permissions()?;
                let resource = if self.eat(Token::KOn) { Some(self.resource()?) } else { None };
                let role = if self.eat(Token::KOf) { Some(self.role_name()?) } else { None };
                let recursive = !self.eat(Token::KNorecursive);
                let list = ListPermissions { permissions, resource, role, recursive };
                Ok(Statement::ListPermissions(list))
            }
        }
    }

    fn permissions(&mut self) -> Parse<Vec<Permission>> {
        if self.eat(Token::KAll) {
            self.eat(Token::KPermissions);
            return Ok(Permission::ALL.to_vec());
        }
        let mut permissions = self.comma_list(|parser| {
            let permission = permission(parser.peek()).ok_or(Failure::Grammar)?;
            parser.advance();
            parser.eat(Token::KPermission);
            Ok(permission)
        })?;
        permissions.sort_unstable();
        permissions.dedup();
        Ok(permissions)
    }

    fn resource(&mut self) -> Parse<Resource> {
        let next = self.peek_at(1);
        // These words may be names of keyspaces or tables too.
        let is_name = matches!(next, Token::KTo | Token::KFrom | Token::KOf | Token::KNorecursive)
            || matches!(next, Token::Dot | Token::End | Token::Semicolon);
        match self.peek() {
            Token::KAll if !is_name => self.whole_resource(),
            Token::KKeyspace => {
                self.advance();
                Ok(Resource::Keyspace(self.keyspace_name()?))
            }
            Token::KColumnFamily => {
                self.advance();
                Ok(Resource::Table(self.table_name()?))
            }
            Token::KRole if !is_name => {
                self.advance();
                Ok(Resource::Role(self.role_name()?))
            }
            Token::KFunction if !is_name => {
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
            Token::KMbean | Token::KMbeans if !is_name => {
                let plural = self.peek() == Token::KMbeans;
                self.advance();
                let name = self.string()?;
                self.check_mbean(&name, plural);
                Ok(Resource::MBean(name))
            }
            _ => Ok(Resource::Table(self.table_name()?)),
        }
    }

    fn whole_resource(&mut self) -> Parse<Resource> {
        self.expect(Token::KAll)?;
        let token = self.peek();
        self.advance();
        match token {
            Token::KKeyspaces => Ok(Resource::AllKeyspaces),
            Token::KRoles => Ok(Resource::AllRoles),
            Token::KMbeans => Ok(Resource::AllMBeans),
            Token::KTables => {
                self.expect_all(&[Token::KIn, Token::KKeyspace])?;
                Ok(Resource::AllTables(self.keyspace_name()?))
            }
            Token::KFunctions if self.eat_clause(&[Token::KIn, Token::KKeyspace])? => {
                Ok(Resource::AllFunctionsIn(self.keyspace_name()?))
            }
            Token::KFunctions => Ok(Resource::AllFunctions),
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
        self.expect_all(&[Token::KCreate, Token::KRole])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        Ok(Statement::CreateRole(CreateRole { name, if_not_exists, options }))
    }

    pub(super) fn alter_role(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::KAlter, Token::KRole])?;
        let if_exists = self.if_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        Ok(Statement::AlterRole(AlterRole { name, if_exists, options }))
    }

    pub(super) fn drop_role(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::KDrop, Token::KRole])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropRole(DropRole { name: self.role_name()?, if_exists }))
    }

    pub(super) fn create_user(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::KCreate, Token::KUser])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_name()?;
        let mut options = self.user_options()?;
        options.login = Some(true);
        options.superuser.get_or_insert(false);
        Ok(Statement::CreateRole(CreateRole { name, if_not_exists, options }))
    }

    pub(super) fn alter_user(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::KAlter, Token::KUser])?;
        let if_exists = self.if_exists()?;
        let name = self.user_name()?;
        let options = self.user_options()?;
        Ok(Statement::AlterRole(AlterRole { name, if_exists, options }))
    }

    pub(super) fn drop_user(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::KDrop, Token::KUser])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropRole(DropRole { name: self.user_name()?, if_exists }))
    }

    /// `[WITH [HASHED] PASSWORD 'p'] [SUPERUSER | NOSUPERUSER]`, without equal signs.
    fn user_options(&mut self) -> Parse<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat(Token::KWith) {
            let hashed = self.eat(Token::KHashed);
            self.expect(Token::KPassword)?;
            let password = Some(self.string()?);
            if hashed {
                options.hashed_password = password;
            } else {
                options.password = password;
            }
        }
        options.superuser = match self.peek() {
            Token::KSuperuser => Some(true),
            Token::KNosuperuser => Some(false),
            _ => return Ok(options),
        };
        self.advance();
        Ok(options)
    }

    fn role_options(&mut self) -> Parse<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.eat(Token::KWith) {
            return Ok(options);
        }
        self.role_option(&mut options)?;
        while self.eat(Token::KAnd) {
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
            Token::KPassword => {
                self.expect(Token::Equal)?;
                let value = self.string()?;
                self.set_once(&mut options.password, value, "PASSWORD")
            }
            Token::KHashed => {
                self.expect_all(&[Token::KPassword, Token::Equal])?;
                let value = self.string()?;
                self.set_once(&mut options.hashed_password, value, "HASHED_PASSWORD")
            }
            Token::KOptions => {
                self.expect(Token::Equal)?;
                let value = self.property_map()?;
                self.set_once(&mut options.custom, value, "OPTIONS")
            }
            Token::KSuperuser => {
                let value = self.equal_boolean()?;
                self.set_once(&mut options.superuser, value, "SUPERUSER")
            }
            Token::KLogin => {
                let value = self.equal_boolean()?;
                self.set_once(&mut options.login, value, "LOGIN")
            }
            Token::KAccess => self.access(options),
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
        self.expect(Token::Boolean)?;
        Ok(value)
    }

    /// `ACCESS TO [ALL] DATACENTERS ...` and `ACCESS FROM [ALL] CIDRS ...`. Lists add up.
    fn access(&mut self, options: &mut RoleOptions) -> Parse<()> {
        let (list, word) = if self.eat(Token::KTo) {
            (&mut options.datacenters, Token::KDatacenters)
        } else {
            self.expect(Token::KFrom)?;
            (&mut options.cidr_groups, Token::KCidrs)
        };
        if self.eat(Token::KAll) {
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
        self.expect_all(&[Token::KAdd, Token::KIdentity])?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.identity()?;
        self.expect_all(&[Token::KTo, Token::KRole])?;
        let role = self.identity()?;
        Ok(Statement::AddIdentity(AddIdentity { identity, role, if_not_exists }))
    }

    pub(super) fn drop_identity(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::KDrop, Token::KIdentity])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropIdentity(DropIdentity { identity: self.identity()?, if_exists }))
    }
}

fn permission(token: Token) -> Option<Permission> {
    Some(match token {
        Token::KCreate => Permission::Create,
        Token::KAlter => Permission::Alter,
        Token::KDrop => Permission::Drop,
        Token::KSelect => Permission::Select,
        Token::KModify => Permission::Modify,
        Token::KAuthorize => Permission::Authorize,
        Token::KDescribe => Permission::Describe,
        Token::KExecute => Permission::Execute,
        Token::KUnmask => Permission::Unmask,
        Token::KSelectMasked => Permission::SelectMasked,
        _ => return None,
    })
}
