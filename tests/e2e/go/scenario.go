// The scenario of Go's gocql (Apache's v2).
//
//	scenario NAME HOST PORT PROTOCOL_VERSION   (NAME cluster: see cluster.go)
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
	"gopkg.in/inf.v0"
)

const (
	keyspace   = "e2e_go"
	page       = 100
	partitions = 5
	rowsEach   = 1000
)

var (
	host   = os.Args[2]
	newest = os.Args[4]
	// The version seen in the last frame header.
	seenVersion atomic.Int32
)

type headerObserver struct{}

func (headerObserver) ObserveFrameHeader(_ context.Context, header gocql.ObservedFrameHeader) {
	seenVersion.Store(int32(header.Version & 0x7f))
}

// watchedPolicy is the token-aware policy, which also remembers the routing key the driver computed last.
type watchedPolicy struct {
	gocql.HostSelectionPolicy
	mutex      sync.Mutex
	routingKey []byte
}

func (policy *watchedPolicy) Pick(statement gocql.ExecutableStatement) gocql.NextHost {
	if statement != nil {
		if key, err := statement.GetRoutingKey(); err == nil && key != nil {
			policy.mutex.Lock()
			policy.routingKey = key
			policy.mutex.Unlock()
		}
	}
	return policy.HostSelectionPolicy.Pick(statement)
}

func (policy *watchedPolicy) lastToken() int64 {
	policy.mutex.Lock()
	defer policy.mutex.Unlock()
	return driverToken(policy.routingKey)
}

// tableEvents receives what the server pushes about tables.
type tableEvents struct {
	names chan string
}

func (events tableEvents) OnTableCreated(event gocql.OnTableCreatedEvent) {
	events.names <- "created " + event.Table.Name
}

func (events tableEvents) OnTableUpdated(event gocql.OnTableUpdatedEvent) {
	events.names <- "updated " + event.New.Name
}

func (events tableEvents) OnTableDropped(event gocql.OnTableDroppedEvent) {
	events.names <- "dropped " + event.Table.Name
}

func (events tableEvents) await(wanted string) error {
	timeout := time.After(90 * time.Second)
	for {
		select {
		case name := <-events.names:
			if name == wanted {
				return nil
			}
		case <-timeout:
			return fmt.Errorf("no event %q within 90 s", wanted)
		}
	}
}

func configuration() *gocql.ClusterConfig {
	port, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	cluster := gocql.NewCluster(host)
	cluster.Port = port
	cluster.Timeout = 30 * time.Second
	cluster.ConnectTimeout = 15 * time.Second
	cluster.ReconnectInterval = 200 * time.Millisecond
	cluster.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 1000, Interval: 200 * time.Millisecond}
	cluster.Consistency = gocql.One
	return cluster
}

type scenario struct {
	session *gocql.Session
	watcher *gocql.Session
	events  tableEvents
	policy  *watchedPolicy
}

func main() {
	if os.Args[1] == "cluster" {
		runCluster()
		return
	}
	s := &scenario{events: tableEvents{names: make(chan string, 1000)}}
	check("create keyspace and table", s.createSchema)
	check("newest protocol version", func() error { return equal(fmt.Sprint(seenVersion.Load()), newest) })
	say("protocol v%d", seenVersion.Load())
	check("schema change event", s.schemaEvent)
	for _, scalar := range scalars() {
		check("type "+scalar.cqlType, func() error { return s.roundTrip(scalar) })
	}
	check("type counter", s.counter)
	for _, collection := range collections() {
		checkBeyondFirst("type "+collection.cqlType, func() error { return s.roundTrip(collection) })
	}
	checkBeyondFirst("type tuple", s.tuples)
	checkBeyondFirst("type udt", s.udts)
	checkBeyondFirst("type vector", s.vectors)
	check("null and unset", s.nullAndUnset)
	check("write 5,000 rows", s.writeRows)
	check("page through 5,000 rows by 100", s.pageAll)
	check("page through one partition in reverse", s.pageReverse)
	check("logged batch", s.loggedBatch)
	check("tokens equal the server's", s.tokens)
	check("token-aware routing", s.routing)
	check("syntax error", s.syntaxError)
	check("missing table", s.missingTable)
	if os.Getenv("HELENUS_E2E_TARGET") == "helenus" {
		check("charges of requests", s.charges)
	} else {
		say("skip charges of requests: this is not Helenus")
	}
	check("protocol v4 with snappy, v3 without compression", s.olderVersions)
	restarted, err := askHarness("RESTART")
	if err != nil {
		panic(err)
	}
	if restarted {
		check("reconnect after a restart", s.afterRestart)
	} else {
		say("skip reconnect after a restart: not our server")
	}
	check("drop keyspace", func() error { return s.session.Query("DROP KEYSPACE " + keyspace).Exec() })
	s.watcher.Close()
	s.session.Close()
}

func (s *scenario) createSchema() error {
	first, err := configuration().CreateSession()
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"DROP KEYSPACE IF EXISTS " + keyspace,
		"CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE " + keyspace + ".paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))",
		"CREATE TABLE " + keyspace + ".plain (id int PRIMARY KEY, a text, b text)",
		"CREATE TABLE " + keyspace + ".keyed (a text, b int, c text, PRIMARY KEY ((a, b), c))",
		"CREATE TABLE " + keyspace + ".named (name text PRIMARY KEY, v int)",
	} {
		if err := first.Query(statement).Exec(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	first.Close()

	// One session changes things, the other only watches.
	cluster := configuration()
	cluster.Keyspace = keyspace
	cluster.Compressor = lz4.LZ4Compressor{}
	cluster.FrameHeaderObserver = headerObserver{}
	s.policy = &watchedPolicy{HostSelectionPolicy: gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())}
	cluster.PoolConfig.HostSelectionPolicy = s.policy
	if s.session, err = cluster.CreateSession(); err != nil {
		return err
	}
	watching := configuration()
	watching.Keyspace = keyspace
	watching.Metadata.SchemaListener.TableChangeListener = s.events
	if s.watcher, err = watching.CreateSession(); err != nil {
		return err
	}
	metadata, err := s.session.KeyspaceMetadata(keyspace)
	if err != nil {
		return err
	}
	table := metadata.Tables["keyed"]
	if table == nil || len(table.PartitionKey) != 2 || len(table.ClusteringColumns) != 1 {
		return fmt.Errorf("unexpected metadata of the table: %+v", table)
	}
	return nil
}

func (s *scenario) schemaEvent() error {
	for _, step := range [][2]string{
		{"CREATE TABLE announced (id int PRIMARY KEY)", "created announced"},
		{"ALTER TABLE announced ADD later text", "updated announced"},
		{"DROP TABLE announced", "dropped announced"},
	} {
		if err := s.session.Query(step[0]).Exec(); err != nil {
			return err
		}
		if err := s.events.await(step[1]); err != nil {
			return err
		}
	}
	return nil
}

type typeCheck struct {
	cqlType string
	values  []any
}

func parsed[T any](value T, ok bool) T {
	if !ok {
		panic("bad literal in the scenario")
	}
	return value
}

func bigInt(text string) *big.Int { return parsed(new(big.Int).SetString(text, 10)) }

func uuid(text string) gocql.UUID {
	value, err := gocql.ParseUUID(text)
	return parsed(value, err == nil)
}

// scalars lists values that must come back as they went in: the ends of the range, zero, something plain.
func scalars() []typeCheck {
	return []typeCheck{
		{"ascii", []any{"", "plain", "~!@#$%^&*()"}},
		{"bigint", []any{int64(0), int64(-1), int64(math.MaxInt64), int64(math.MinInt64)}},
		{"blob", []any{[]byte{}, []byte{0, 255}, make([]byte, 65536)}},
		{"boolean", []any{true, false}},
		{"date", []any{time.Unix(0, 0).UTC(), time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)}},
		{"decimal", []any{inf.NewDec(0, 0), inf.NewDec(-150, 2), inf.NewDecBig(bigInt("123456789012345678901234567890123"), 3)}},
		{"double", []any{0.0, -1.5, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1)}},
		{"duration", []any{gocql.Duration{}, gocql.Duration{Months: 14, Days: 3, Nanoseconds: 3_600_000_000_000}, gocql.Duration{Months: -1, Days: -2, Nanoseconds: -3}}},
		{"float", []any{float32(0), float32(-1.5), float32(math.MaxFloat32)}},
		{"inet", []any{net.ParseIP("127.0.0.1").To4(), net.ParseIP("::1"), net.ParseIP("2001:db8::8a2e:370:7334")}},
		{"int", []any{0, -1, math.MaxInt32, math.MinInt32}},
		{"smallint", []any{int16(0), int16(-1), int16(math.MaxInt16), int16(math.MinInt16)}},
		{"text", []any{"", "château", "日本語 🙂", strings.Repeat("x", 70_000)}},
		{"time", []any{time.Duration(0), time.Duration(1), 24*time.Hour - 1}},
		{"timestamp", []any{time.UnixMilli(0).UTC(), time.UnixMilli(-1).UTC(), time.Date(2038, 1, 19, 3, 14, 8, 123_000_000, time.UTC)}},
		{"timeuuid", []any{uuid("50554d6e-29bb-11e5-b345-feff819cdc9f")}},
		{"tinyint", []any{int8(0), int8(-1), int8(127), int8(-128)}},
		{"uuid", []any{gocql.UUID{}, uuid("f81d4fae-7dec-41d0-a765-00a0c91e6bf6")}},
		{"varchar", []any{"same as text"}},
		{"varint", []any{bigInt("0"), bigInt("-1"), bigInt("128"), bigInt("-129"), bigInt("9223372036854775808"), bigInt("-" + strings.Repeat("9", 60))}},
	}
}

func collections() []typeCheck {
	return []typeCheck{
		{"list<int>", []any{[]int{1}, []int{3, 1, 3, 2}}},
		{"set<text>", []any{[]string{"a"}, []string{"a", "b", "c"}}},
		{"map<text, int>", []any{map[string]int{"a": 1}, map[string]int{"a": 1, "b": 2}}},
		{"map<uuid, frozen<list<text>>>", []any{map[gocql.UUID][]string{uuid("f81d4fae-7dec-41d0-a765-00a0c91e6bf6"): {"x", "y"}}}},
		{"frozen<list<frozen<set<int>>>>", []any{[][]int{}, [][]int{{1, 2}, {3}}}},
		{"frozen<map<int, text>>", []any{map[int]string{}, map[int]string{1: "a", 2: "b"}}},
	}
}

// same compares by meaning: numbers of arbitrary precision and times have several representations.
func same(got, wanted any) bool {
	switch wanted := wanted.(type) {
	case *big.Int:
		return got.(*big.Int).Cmp(wanted) == 0
	case *inf.Dec:
		return got.(*inf.Dec).Cmp(wanted) == 0 && got.(*inf.Dec).Scale() == wanted.Scale()
	case time.Time:
		return got.(time.Time).Equal(wanted)
	case net.IP:
		return got.(net.IP).Equal(wanted)
	case []byte:
		return string(got.([]byte)) == string(wanted)
	}
	return reflect.DeepEqual(got, wanted)
}

func (s *scenario) roundTrip(item typeCheck) error {
	// A table of its own for each type: the driver keeps prepared statements by their text.
	table := "type_" + strings.Map(func(letter rune) rune {
		if letter >= 'a' && letter <= 'z' {
			return letter
		}
		return '_'
	}, item.cqlType)
	if err := s.session.Query(fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, v %s)", table, item.cqlType)).Exec(); err != nil {
		return err
	}
	for id, value := range item.values {
		if err := s.session.Query("INSERT INTO "+table+" (id, v) VALUES (?, ?)", id, value).Exec(); err != nil {
			return err
		}
		got := reflect.New(reflect.TypeOf(value))
		if err := s.session.Query("SELECT v FROM "+table+" WHERE id = ?", id).Scan(got.Interface()); err != nil {
			return err
		}
		if !same(got.Elem().Interface(), value) {
			return equal(got.Elem().Interface(), value)
		}
	}
	return nil
}

func (s *scenario) exec(statement string, values ...any) error {
	if err := s.session.Query(statement, values...).Exec(); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func (s *scenario) counter() error {
	if err := s.exec("CREATE TABLE counted (id int PRIMARY KEY, n counter)"); err != nil {
		return err
	}
	for _, step := range []int64{5, -2, 1 << 40} {
		if err := s.exec("UPDATE counted SET n = n + ? WHERE id = ?", step, 1); err != nil {
			return err
		}
	}
	var n int64
	if err := s.session.Query("SELECT n FROM counted WHERE id = 1").Scan(&n); err != nil {
		return err
	}
	return equal(n, int64(3+1<<40))
}

func (s *scenario) tuples() error {
	if err := s.exec("CREATE TABLE tuples (id int PRIMARY KEY, v tuple<int, text, uuid>)"); err != nil {
		return err
	}
	// The driver binds and scans a tuple field by field.
	id := uuid("f81d4fae-7dec-41d0-a765-00a0c91e6bf6")
	if err := s.exec("INSERT INTO tuples (id, v) VALUES (?, (?, ?, ?))", 1, 1, "one", id); err != nil {
		return err
	}
	var number int
	var text string
	var gotID gocql.UUID
	if err := s.session.Query("SELECT v FROM tuples WHERE id = ?", 1).Scan(&number, &text, &gotID); err != nil {
		return err
	}
	return equal([]any{number, text, gotID}, []any{1, "one", id})
}

type address struct {
	Street string `cql:"street"`
	Number int    `cql:"number"`
}

type person struct {
	Name   string   `cql:"name"`
	Home   address  `cql:"home"`
	Phones []string `cql:"phones"`
}

func (s *scenario) udts() error {
	for _, statement := range []string{
		"CREATE TYPE address (street text, number int)",
		"CREATE TYPE person (name text, home frozen<address>, phones frozen<list<text>>)",
		"CREATE TABLE people (id int PRIMARY KEY, p person)",
	} {
		if err := s.exec(statement); err != nil {
			return err
		}
	}
	theo := person{"theo", address{"high street", 7}, []string{"1", "2"}}
	if err := s.exec("INSERT INTO people (id, p) VALUES (?, ?)", 1, theo); err != nil {
		return err
	}
	var got person
	if err := s.session.Query("SELECT p FROM people WHERE id = ?", 1).Scan(&got); err != nil {
		return err
	}
	return equal(got, theo)
}

func (s *scenario) vectors() error {
	return s.roundTrip(typeCheck{"vector<float, 3>", []any{[]float32{1, -2.5, 0}}})
}

func (s *scenario) nullAndUnset() error {
	insert := "INSERT INTO plain (id, a, b) VALUES (?, ?, ?)"
	if err := s.exec(insert, 1, "a", "b"); err != nil {
		return err
	}
	if err := s.exec(insert, 1, nil, gocql.UnsetValue); err != nil {
		return err
	}
	var a, b *string
	if err := s.session.Query("SELECT a, b FROM plain WHERE id = ?", 1).Scan(&a, &b); err != nil {
		return err
	}
	if a != nil || b == nil || *b != "b" {
		return fmt.Errorf("wanted null and \"b\", got %v and %v", a, b)
	}
	return nil
}

func (s *scenario) writeRows() error {
	failures := make(chan error, partitions)
	for pk := range partitions {
		go func() {
			for ck := range rowsEach {
				if err := s.exec("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)", pk, ck, fmt.Sprintf("row %d %d", pk, ck)); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	var failed error
	for range partitions {
		failed = errors.Join(failed, <-failures)
	}
	return failed
}

// pages reads page by page and demands full ones; an empty last page is the server's choice.
func (s *scenario) pages(count int, onRow func(gocql.Scanner) error, statement string, values ...any) error {
	var state []byte
	var sizes []int
	for {
		iter := s.session.Query(statement, values...).PageSize(page).PageState(state).Iter()
		state = iter.PageState()
		rows := iter.NumRows()
		scanner := iter.Scanner()
		for range rows {
			if !scanner.Next() {
				return fmt.Errorf("a page ended early: %w", scanner.Err())
			}
			if err := onRow(scanner); err != nil {
				return err
			}
		}
		if err := iter.Close(); err != nil {
			return err
		}
		if rows > 0 || len(state) > 0 {
			sizes = append(sizes, rows)
		}
		if len(state) == 0 {
			break
		}
	}
	wanted := make([]int, count)
	for index := range wanted {
		wanted[index] = page
	}
	return equal(sizes, wanted)
}

func (s *scenario) pageAll() error {
	var index int
	var lastToken int64 = math.MinInt64
	seen := map[string]bool{}
	err := s.pages(partitions*rowsEach/page, func(scanner gocql.Scanner) error {
		var token int64
		var pk, ck int
		var v string
		if err := scanner.Scan(&token, &pk, &ck, &v); err != nil {
			return err
		}
		if token < lastToken || ck != index%rowsEach || v != fmt.Sprintf("row %d %d", pk, ck) {
			return fmt.Errorf("row %d out of order: token %d after %d, ck %d, %q", index, token, lastToken, ck, v)
		}
		seen[v], lastToken = true, token
		index++
		return nil
	}, "SELECT token(pk), pk, ck, v FROM paged")
	if err != nil {
		return err
	}
	return equal(len(seen), partitions*rowsEach)
}

func (s *scenario) pageReverse() error {
	wanted := rowsEach - 1
	return s.pages(rowsEach/page, func(scanner gocql.Scanner) error {
		var ck int
		if err := scanner.Scan(&ck); err != nil {
			return err
		}
		wanted--
		return equal(ck, wanted+1)
	}, "SELECT ck FROM paged WHERE pk = ? ORDER BY ck DESC", 3)
}

func (s *scenario) loggedBatch() error {
	batch := s.session.Batch(gocql.LoggedBatch)
	batch.Query("INSERT INTO named (name, v) VALUES (?, ?)", "one", 1)
	batch.Query("INSERT INTO named (name, v) VALUES (?, ?)", "two", 2)
	batch.Query("INSERT INTO plain (id, a) VALUES (?, ?)", 20, "batched")
	if err := batch.Exec(); err != nil {
		return err
	}
	got := map[string]int{}
	times := map[int64]bool{}
	scanner := s.session.Query("SELECT name, v, writetime(v) FROM named WHERE name IN ('one', 'two')").Iter().Scanner()
	for scanner.Next() {
		var name string
		var v int
		var written int64
		if err := scanner.Scan(&name, &v, &written); err != nil {
			return err
		}
		got[name], times[written] = v, true
	}
	if err := errors.Join(scanner.Err(), equal(got, map[string]int{"one": 1, "two": 2}), equal(len(times), 1)); err != nil {
		return err
	}
	var a string
	if err := s.session.Query("SELECT a FROM plain WHERE id = 20").Scan(&a); err != nil {
		return err
	}
	return equal(a, "batched")
}

func (s *scenario) tokens() error {
	compare := func(statement string, key ...any) error {
		var token int64
		if err := s.session.Query(statement, key...).Scan(&token); err != nil {
			return err
		}
		return equal(s.policy.lastToken(), token)
	}
	for _, name := range []string{"a", strings.Repeat("x", 40), "日本語", "16 bytes exactly", "château"} {
		if err := s.exec("INSERT INTO named (name, v) VALUES (?, 0)", name); err != nil {
			return err
		}
		if err := compare("SELECT token(name) FROM named WHERE name = ?", name); err != nil {
			return err
		}
	}
	if err := equal(s.policy.lastToken(), int64(9114062196463836094)); err != nil {
		return err
	}
	for _, key := range [][]any{{"château", 1}, {"", 0}, {"z", -1}} {
		if err := s.exec("INSERT INTO keyed (a, b, c) VALUES (?, ?, 'c')", key...); err != nil {
			return err
		}
		if err := compare("SELECT token(a, b) FROM keyed WHERE a = ? AND b = ?", key...); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) routing() error {
	iter := s.session.Query("SELECT v FROM named WHERE name = ?", "château").Iter()
	defer iter.Close()
	owner := iter.Host()
	if owner == nil || len(owner.Tokens()) == 0 {
		return fmt.Errorf("the host that answered owns no tokens: %v", owner)
	}
	return equal(owner.ConnectAddress().String(), host)
}

// chargeOf reads the charge as the original's sample does.
func (s *scenario) chargeOf(query string, values ...interface{}) (float64, error) {
	ask := map[string][]byte{"RequestCharge": {}}
	iter := s.session.Query(query, values...).CustomPayload(ask).Iter()
	payload := iter.GetCustomPayload()["RequestCharge"]
	if err := iter.Close(); err != nil {
		return 0, err
	}
	if len(payload) != 8 {
		return 0, fmt.Errorf("%s: no charge but %v", query, payload)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(payload)), nil
}

func (s *scenario) charges() error {
	if err := s.session.Query("CREATE TABLE charged (id int PRIMARY KEY, v blob)").Exec(); err != nil {
		return err
	}
	written, err := s.chargeOf("INSERT INTO charged (id, v) VALUES (?, ?)", 1, make([]byte, 1020))
	if err != nil {
		return err
	}
	if err := equal(written, 4.95); err != nil {
		return err
	}
	read, err := s.chargeOf("SELECT * FROM charged WHERE id = ?", 1)
	if err != nil {
		return err
	}
	if err := equal(read, 1.0); err != nil {
		return err
	}
	_, err = s.chargeOf("SELECT table_name FROM system_schema.tables")
	return err
}

func (s *scenario) syntaxError() error {
	var syntax *gocql.RequestErrSyntax
	err := s.session.Query("SELEC * FROM plain").Exec()
	if !errors.As(err, &syntax) || !strings.Contains(err.Error(), "line 1:0 ") {
		return fmt.Errorf("wanted a syntax error, got %T: %w", err, err)
	}
	return nil
}

func (s *scenario) missingTable() error {
	var invalid *gocql.RequestErrInvalid
	err := s.session.Query("SELECT * FROM nowhere").Exec()
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "table nowhere does not exist") {
		return fmt.Errorf("wanted an invalid query, got %T: %w", err, err)
	}
	return nil
}

func (s *scenario) olderVersions() error {
	for version, compressor := range map[int]gocql.Compressor{4: snappy.SnappyCompressor{}, 3: nil} {
		cluster := configuration()
		cluster.Keyspace = keyspace
		cluster.ProtoVersion = version
		cluster.Compressor = compressor
		session, err := cluster.CreateSession()
		if err != nil {
			return fmt.Errorf("v%d: %w", version, err)
		}
		rows := session.Query("SELECT ck FROM paged WHERE pk = 2 LIMIT 200").Iter().NumRows()
		session.Close()
		if err := equal(rows, 200); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) afterRestart() error {
	if err := eventually("the session answers again", func() error {
		var v string
		if err := s.session.Query("SELECT v FROM paged WHERE pk = ? AND ck = ?", 4, 999).Scan(&v); err != nil {
			return err
		}
		return equal(v, "row 4 999")
	}); err != nil {
		return err
	}
	return eventually("all rows are there", func() error {
		var count int
		if err := s.session.Query("SELECT count(*) FROM paged").Scan(&count); err != nil {
			return err
		}
		return equal(count, partitions*rowsEach)
	})
}
