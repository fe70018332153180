// Empty: it lets the compiler accept the linked function without a body in token.go.
