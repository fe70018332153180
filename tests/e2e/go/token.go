package main

import (
	_ "unsafe" // for the link below
)

// The driver keeps its token function internal; the scenario compares that very function with the server's token().
//
//go:linkname driverToken github.com/apache/cassandra-gocql-driver/v2/internal/murmur.Murmur3H1
func driverToken(routingKey []byte) int64
