import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.metadata.schema.SchemaChangeListenerBase;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.metadata.token.Token;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.datastax.oss.driver.internal.core.metadata.token.Murmur3Token;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The scenario of the Java driver 4.x.
 *
 * <p>java -cp ... Scenario NAME HOST PORT PROTOCOL_VERSION
 */
public final class Scenario {
  private static final String KEYSPACE = "e2e_java";
  private static final int PAGE = 100;
  private static final int PARTITIONS = 5;
  private static final int ROWS_EACH = 1000;

  private final InetSocketAddress address;
  private final String newest;
  private final CqlSession session;
  private final CqlSession watcher;
  private final BlockingQueue<String> events = new LinkedBlockingQueue<>();

  public static void main(String[] arguments) throws Exception {
    new Scenario(new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2])), arguments[3]).run();
    System.exit(0);
  }

  private Scenario(InetSocketAddress address, String newest) {
    this.address = address;
    this.newest = newest;
    // One session changes things, the other only watches.
    this.session = builder("lz4", null).build();
    this.watcher = builder("none", null).withSchemaChangeListener(new TableEvents()).build();
  }

  private CqlSessionBuilder builder(String compression, String version) {
    ProgrammaticDriverConfigLoaderBuilder options =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(15))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(15))
            // Many small schema changes follow each other here: do not gather them for a second each.
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(20))
            .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(200))
            .withDuration(DefaultDriverOption.RECONNECTION_MAX_DELAY, Duration.ofMillis(400));
    if (version != null) {
      options.withString(DefaultDriverOption.PROTOCOL_VERSION, version);
    }
    String datacenter = System.getenv().getOrDefault("HELENUS_E2E_DATACENTER", "datacenter1");
    return CqlSession.builder()
        .addContactPoint(address)
        .withLocalDatacenter(datacenter)
        .withConfigLoader(options.build());
  }

  /** Collects what the server pushes about tables. */
  private final class TableEvents extends SchemaChangeListenerBase {
    @Override
    public void onTableCreated(TableMetadata table) {
      events.add("created " + table.getName());
    }

    @Override
    public void onTableUpdated(TableMetadata current, TableMetadata previous) {
      events.add("updated " + current.getName());
    }

    @Override
    public void onTableDropped(TableMetadata table) {
      events.add("dropped " + table.getName());
    }
  }

  private void run() throws Exception {
    String version = session.getContext().getProtocolVersion().toString();
    Harness.check("newest protocol version", () -> Harness.equal(version, "V" + newest));
    Harness.say("protocol " + version.toLowerCase());
    Harness.check("create keyspace and table", this::createSchema);
    Harness.check("schema change event", this::schemaEvent);
    for (Map.Entry<String, List<?>> scalar : scalars().entrySet()) {
      Harness.check("type " + scalar.getKey(), () -> roundTrip(scalar.getKey(), scalar.getValue()));
    }
    Harness.check("type counter", this::counter);
    for (Map.Entry<String, List<?>> collection : collections().entrySet()) {
      Harness.checkBeyondFirst("type " + collection.getKey(), () -> roundTrip(collection.getKey(), collection.getValue()));
    }
    Harness.checkBeyondFirst("type tuple", this::tuples);
    Harness.checkBeyondFirst("type udt", this::udts);
    Harness.checkBeyondFirst("type vector", this::vectors);
    Harness.check("null and unset", this::nullAndUnset);
    Harness.check("write 5,000 rows", this::writeRows);
    Harness.check("page through 5,000 rows by 100", this::pageAll);
    Harness.check("page through one partition in reverse", this::pageReverse);
    Harness.check("logged batch", this::loggedBatch);
    Harness.check("tokens equal the server's", this::tokens);
    Harness.check("token-aware routing", this::routing);
    Harness.check("syntax error", () -> Harness.refused(SyntaxError.class, "line 1:0 ", () -> run("SELEC * FROM plain")));
    Harness.check("missing table", () -> Harness.refused(InvalidQueryException.class, "table nowhere does not exist",
        () -> run("SELECT * FROM nowhere")));
    Harness.check("keyspace exists already", () -> Harness.refused(AlreadyExistsException.class, KEYSPACE,
        () -> run("CREATE KEYSPACE " + KEYSPACE + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")));
    if (run("SELECT * FROM system_virtual_schema.keyspaces WHERE keyspace_name = 'system_helenus'").one() != null) {
      Harness.check("charges of requests", this::charges);
    } else {
      Harness.say("skip charges of requests: this is not Helenus");
    }
    Harness.check("older protocol versions, snappy and lz4", this::olderVersions);
    if (Harness.restartServer()) {
      Harness.check("reconnect after a restart", this::afterRestart);
    } else {
      Harness.say("skip reconnect after a restart: not our server");
    }
    run("DROP KEYSPACE " + KEYSPACE);
    watcher.close();
    session.close();
  }

  /** As the original's sample reads it; here it is told to those who ask. */
  private double chargeOf(Statement<?> statement) {
    Map<String, ByteBuffer> ask = Map.of("RequestCharge", ByteBuffer.allocate(0));
    ResultSet rows = session.execute(statement.setCustomPayload(ask));
    return rows.getExecutionInfo().getIncomingPayload().get("RequestCharge").getDouble();
  }

  private void charges() {
    run("CREATE TABLE charged (id int PRIMARY KEY, v blob)");
    ByteBuffer kilobyte = ByteBuffer.allocate(1020);
    Harness.equal(chargeOf(SimpleStatement.newInstance("INSERT INTO charged (id, v) VALUES (?, ?)", 1, kilobyte)), 4.95);
    Harness.equal(chargeOf(session.prepare("SELECT * FROM charged WHERE id = ?").bind(1)), 1.0);
    // The statement of the original's documentation.
    String ofKeyspace = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
    double ofSystem = chargeOf(SimpleStatement.newInstance(ofKeyspace, KEYSPACE));
    if (!(ofSystem >= 1.0)) {
      throw new AssertionError("a system query cost " + ofSystem);
    }
  }

  private ResultSet run(String query, Object... values) {
    return session.execute(SimpleStatement.newInstance(query, values));
  }

  private ResultSet prepared(String query, Object... values) {
    return session.execute(session.prepare(query).bind(values));
  }

  private void createSchema() {
    run("DROP KEYSPACE IF EXISTS " + KEYSPACE);
    run("CREATE KEYSPACE " + KEYSPACE + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    run("USE " + KEYSPACE);
    run("CREATE TABLE paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))");
    run("CREATE TABLE plain (id int PRIMARY KEY, a text, b text)");
    run("CREATE TABLE keyed (a text, b int, c text, PRIMARY KEY ((a, b), c))");
    run("CREATE TABLE named (name text PRIMARY KEY, v int)");
    TableMetadata keyed = session.getMetadata().getKeyspace(KEYSPACE).get().getTable("keyed").get();
    Harness.equal(keyed.getPartitionKey().toString().contains("a text"), true);
    Harness.equal(keyed.getPartitionKey().size(), 2);
    Harness.equal(keyed.getClusteringColumns().size(), 1);
  }

  private void schemaEvent() throws Exception {
    run("CREATE TABLE announced (id int PRIMARY KEY)");
    await("created announced");
    run("ALTER TABLE announced ADD later text");
    await("updated announced");
    run("DROP TABLE announced");
    await("dropped announced");
  }

  private void await(String wanted) throws InterruptedException {
    String event;
    do {
      event = events.poll(30, TimeUnit.SECONDS);
      if (event == null) {
        throw new AssertionError("no event '" + wanted + "' within 30 s");
      }
    } while (!event.equals(wanted));
  }

  /** Values that must come back as they went in: the ends of the range, zero, something plain. */
  private static Map<String, List<?>> scalars() throws Exception {
    Map<String, List<?>> types = new LinkedHashMap<>();
    types.put("ascii", List.of("", "plain", "~!@#$%^&*()"));
    types.put("bigint", List.of(0L, -1L, Long.MAX_VALUE, Long.MIN_VALUE));
    types.put("blob", List.of(ByteBuffer.allocate(0), ByteBuffer.wrap(new byte[] {0, -1}), ByteBuffer.allocate(65536)));
    types.put("boolean", List.of(true, false));
    types.put("date", List.of(LocalDate.EPOCH, LocalDate.of(1969, 12, 31), LocalDate.of(2024, 2, 29), LocalDate.of(-5000, 1, 1)));
    types.put("decimal", List.of(BigDecimal.ZERO, new BigDecimal("-1.50"), new BigDecimal("1E+10"),
        new BigDecimal("123456789012345678901234567890.123")));
    types.put("double", List.of(0.0, -1.5, Double.MAX_VALUE, Double.MIN_VALUE, Double.POSITIVE_INFINITY, Double.NaN));
    types.put("duration", List.of(CqlDuration.newInstance(0, 0, 0), CqlDuration.newInstance(14, 3, 3_600_000_000_000L),
        CqlDuration.newInstance(-1, -2, -3)));
    types.put("float", List.of(0f, -1.5f, Float.MAX_VALUE));
    types.put("inet", List.of(InetAddress.getByName("127.0.0.1"), InetAddress.getByName("::1"),
        InetAddress.getByName("2001:db8::8a2e:370:7334")));
    types.put("int", List.of(0, -1, Integer.MAX_VALUE, Integer.MIN_VALUE));
    types.put("smallint", List.of((short) 0, (short) -1, Short.MAX_VALUE, Short.MIN_VALUE));
    types.put("text", List.of("", "château", "日本語 🙂", "x".repeat(70_000)));
    types.put("time", List.of(LocalTime.MIN, LocalTime.of(13, 14, 15, 123_456_789), LocalTime.MAX));
    types.put("timestamp", List.of(Instant.EPOCH, Instant.ofEpochMilli(-1), Instant.parse("2038-01-19T03:14:08.123Z")));
    types.put("timeuuid", List.of(UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f")));
    types.put("tinyint", List.of((byte) 0, (byte) -1, Byte.MAX_VALUE, Byte.MIN_VALUE));
    types.put("uuid", List.of(new UUID(0, 0), UUID.fromString("f81d4fae-7dec-41d0-a765-00a0c91e6bf6")));
    types.put("varchar", List.of("same as text"));
    types.put("varint", List.of(BigInteger.ZERO, BigInteger.ONE.negate(), BigInteger.valueOf(128), BigInteger.valueOf(-129),
        BigInteger.TWO.pow(63), BigInteger.TEN.pow(60).negate()));
    return types;
  }

  private static Map<String, List<?>> collections() {
    Map<String, List<?>> types = new LinkedHashMap<>();
    types.put("list<int>", List.of(List.of(1), List.of(3, 1, 3, 2)));
    types.put("set<text>", List.of(Set.of("a"), Set.of("a", "b", "c")));
    types.put("map<text, int>", List.of(Map.of("a", 1), Map.of("a", 1, "b", 2)));
    types.put("map<uuid, frozen<list<text>>>", List.of(Map.of(new UUID(1, 2), List.of("x", "y"))));
    types.put("frozen<list<frozen<set<int>>>>", List.of(List.of(), List.of(Set.of(1, 2), Set.of())));
    types.put("frozen<map<int, text>>", List.of(Map.of(), Map.of(1, "a", 2, "b")));
    return types;
  }

  private void roundTrip(String type, List<?> values) {
    // A table of its own for each type: the session keeps prepared statements by their text.
    String table = "type_" + type.replaceAll("[^a-z0-9]+", "_");
    run("CREATE TABLE " + table + " (id int PRIMARY KEY, v " + type + ")");
    for (int id = 0; id < values.size(); id++) {
      prepared("INSERT INTO " + table + " (id, v) VALUES (?, ?)", id, values.get(id));
      Harness.equal(prepared("SELECT v FROM " + table + " WHERE id = ?", id).one().getObject(0), values.get(id));
    }
  }

  private void counter() {
    run("CREATE TABLE counted (id int PRIMARY KEY, n counter)");
    for (long step : new long[] {5, -2, 1L << 40}) {
      prepared("UPDATE counted SET n = n + ? WHERE id = ?", step, 1);
    }
    Harness.equal(run("SELECT n FROM counted WHERE id = 1").one().getLong(0), 3 + (1L << 40));
  }

  private void tuples() {
    run("CREATE TABLE tuples (id int PRIMARY KEY, v tuple<int, text, uuid>)");
    TupleType type = DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT, DataTypes.UUID);
    for (TupleValue value : List.of(type.newValue(1, "one", new UUID(1, 2)), type.newValue(2, null, null))) {
      prepared("INSERT INTO tuples (id, v) VALUES (?, ?)", 1, value);
      TupleValue got = run("SELECT v FROM tuples WHERE id = 1").one().getTupleValue(0);
      Harness.equal(got.getFormattedContents(), value.getFormattedContents());
    }
  }

  private void udts() {
    run("CREATE TYPE address (street text, number int)");
    run("CREATE TYPE person (name text, home frozen<address>, phones frozen<list<text>>)");
    run("CREATE TABLE people (id int PRIMARY KEY, p person)");
    UserDefinedType person = session.getMetadata().getKeyspace(KEYSPACE).get().getUserDefinedType("person").get();
    UserDefinedType home = (UserDefinedType) person.getFieldTypes().get(1);
    UdtValue theo = person.newValue("theo", home.newValue("high street", 7), List.of("1", "2"));
    prepared("INSERT INTO people (id, p) VALUES (?, ?)", 1, theo);
    UdtValue got = run("SELECT p FROM people WHERE id = 1").one().getUdtValue(0);
    Harness.equal(got.getFormattedContents(), theo.getFormattedContents());
  }

  private void vectors() {
    roundTrip("vector<float, 3>", List.of(CqlVector.newInstance(1f, -2.5f, 0f)));
  }

  private void nullAndUnset() {
    PreparedStatement insert = session.prepare("INSERT INTO plain (id, a, b) VALUES (?, ?, ?)");
    session.execute(insert.bind(1, "a", "b"));
    // A value that is never set travels as unset; one set to null as null.
    session.execute(insert.boundStatementBuilder().setInt(0, 1).setToNull(1).build());
    Row row = prepared("SELECT a, b FROM plain WHERE id = ?", 1).one();
    Harness.equal(row.isNull("a"), true);
    Harness.equal(row.getString("b"), "b");
  }

  private void writeRows() throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)");
    for (int ck = 0; ck < ROWS_EACH; ck += 20) {
      List<CompletionStage<AsyncResultSet>> writes = new ArrayList<>();
      for (int pk = 0; pk < PARTITIONS; pk++) {
        for (int next = ck; next < ck + 20; next++) {
          writes.add(session.executeAsync(insert.bind(pk, next, "row " + pk + " " + next)));
        }
      }
      for (CompletionStage<AsyncResultSet> write : writes) {
        write.toCompletableFuture().get(30, TimeUnit.SECONDS);
      }
    }
  }

  /** Reads page by page and demands full pages; an empty last page is the server's choice. */
  private List<Row> pages(Statement<?> statement, int count) throws Exception {
    List<Row> rows = new ArrayList<>();
    List<Integer> sizes = new ArrayList<>();
    AsyncResultSet page = session.executeAsync(statement.setPageSize(PAGE)).toCompletableFuture().get(30, TimeUnit.SECONDS);
    while (true) {
      int before = rows.size();
      page.currentPage().forEach(rows::add);
      sizes.add(rows.size() - before);
      if (!page.hasMorePages()) {
        break;
      }
      page = page.fetchNextPage().toCompletableFuture().get(30, TimeUnit.SECONDS);
    }
    if (sizes.get(sizes.size() - 1) == 0) {
      sizes.remove(sizes.size() - 1);
    }
    Harness.equal(sizes, Collections.nCopies(count, PAGE));
    return rows;
  }

  private void pageAll() throws Exception {
    List<Row> rows = pages(SimpleStatement.newInstance("SELECT token(pk) AS t, pk, ck, v FROM paged"),
        PARTITIONS * ROWS_EACH / PAGE);
    Set<String> seen = new HashSet<>();
    long last = Long.MIN_VALUE;
    for (int index = 0; index < rows.size(); index++) {
      Row row = rows.get(index);
      Harness.equal(row.getString("v"), "row " + row.getInt("pk") + " " + row.getInt("ck"));
      Harness.equal(row.getInt("ck"), index % ROWS_EACH);
      Harness.equal(row.getLong("t") >= last, true);
      last = row.getLong("t");
      seen.add(row.getString("v"));
    }
    Harness.equal(seen.size(), PARTITIONS * ROWS_EACH);
  }

  private void pageReverse() throws Exception {
    List<Row> rows = pages(session.prepare("SELECT ck FROM paged WHERE pk = ? ORDER BY ck DESC").bind(3), ROWS_EACH / PAGE);
    for (int index = 0; index < ROWS_EACH; index++) {
      Harness.equal(rows.get(index).getInt(0), ROWS_EACH - 1 - index);
    }
  }

  private void loggedBatch() {
    PreparedStatement named = session.prepare("INSERT INTO named (name, v) VALUES (?, ?)");
    session.execute(BatchStatement.newInstance(DefaultBatchType.LOGGED, named.bind("one", 1), named.bind("two", 2),
        SimpleStatement.newInstance("INSERT INTO plain (id, a) VALUES (?, ?)", 20, "batched")));
    Map<String, Integer> got = new LinkedHashMap<>();
    Set<Long> times = new HashSet<>();
    for (Row row : run("SELECT name, v, writetime(v) FROM named WHERE name IN ('one', 'two')")) {
      got.put(row.getString(0), row.getInt(1));
      times.add(row.getLong(2));
    }
    Harness.equal(got, Map.of("one", 1, "two", 2));
    Harness.equal(times.size(), 1);
    Harness.equal(run("SELECT a FROM plain WHERE id = 20").one().getString(0), "batched");
  }

  private TokenMap tokenMap() {
    return session.getMetadata().getTokenMap().get();
  }

  private static long value(Token token) {
    return ((Murmur3Token) token).getValue();
  }

  private void tokens() {
    for (String name : List.of("a", "x".repeat(40), "日本語", "16 bytes exactly", "château")) {
      prepared("INSERT INTO named (name, v) VALUES (?, 0)", name);
      BoundStatement select = session.prepare("SELECT token(name) FROM named WHERE name = ?").bind(name);
      long server = session.execute(select).one().getLong(0);
      Harness.equal(value(tokenMap().newToken(select.getRoutingKey())), server);
      Harness.equal(!name.equals("château") || server == 9114062196463836094L, true);
    }
    for (Object[] key : new Object[][] {{"château", 1}, {"", 0}, {"z", -1}}) {
      prepared("INSERT INTO keyed (a, b, c) VALUES (?, ?, 'c')", key);
      BoundStatement select = session.prepare("SELECT token(a, b) FROM keyed WHERE a = ? AND b = ?").bind(key);
      Harness.equal(value(tokenMap().newToken(select.getRoutingKey())), session.execute(select).one().getLong(0));
    }
  }

  private void routing() {
    BoundStatement select = session.prepare("SELECT v FROM named WHERE name = ?").bind("château");
    Set<Node> owners = tokenMap().getReplicas(CqlIdentifier.fromCql(KEYSPACE), select.getRoutingKey());
    Harness.equal(owners.size(), 1);
    Harness.equal(owners.contains(session.execute(select).getExecutionInfo().getCoordinator()), true);
  }

  private void olderVersions() {
    for (String[] kind : new String[][] {{"V4", "snappy"}, {"V4", "lz4"}, {"V3", "snappy"}, {"V3", "none"}}) {
      try (CqlSession older = builder(kind[1], kind[0]).withKeyspace(KEYSPACE).build()) {
        Harness.equal(older.getContext().getProtocolVersion().toString(), kind[0]);
        Harness.equal(older.execute("SELECT ck FROM paged WHERE pk = 2 LIMIT 200").all().size(), 200);
      }
    }
  }

  private void afterRestart() throws Exception {
    Harness.eventually("the session answers again",
        () -> prepared("SELECT v FROM paged WHERE pk = ? AND ck = ?", 4, 999).one().getString(0).equals("row 4 999"));
    Harness.eventually("all rows are there",
        () -> run("SELECT count(*) FROM paged").one().getLong(0) == PARTITIONS * ROWS_EACH);
  }
}
