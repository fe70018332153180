package main

// A cluster of four nodes as gocql sees it, while nodes are killed, drained, restarted, joined and decommissioned.
//
//	scenario cluster HOST PORT PROTOCOL_VERSION

import (
	"fmt"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

const (
	clusterKeyspace = "e2e_cluster_go"
	clusterNodes    = 4
	listMax         = 100
)

// load does something again and again; what failed is kept.
type load struct {
	name     string
	step     func(number int) error
	mutex    sync.Mutex
	done     int
	failed   map[int]error
	longest  time.Duration
	stopping chan struct{}
	stopped  chan struct{}
}

func startLoad(name string, step func(number int) error) *load {
	it := &load{name: name, step: step, failed: map[int]error{}, stopping: make(chan struct{}), stopped: make(chan struct{})}
	go it.run()
	return it
}

func (it *load) run() {
	defer close(it.stopped)
	for number := 0; ; number++ {
		select {
		case <-it.stopping:
			return
		default:
		}
		began := time.Now()
		err := it.step(number)
		it.mutex.Lock()
		it.longest = max(it.longest, time.Since(began))
		it.done = number + 1
		if err != nil {
			it.failed[number] = err
		}
		it.mutex.Unlock()
	}
}

func (it *load) count() int {
	it.mutex.Lock()
	defer it.mutex.Unlock()
	return it.done
}

func (it *load) end() {
	close(it.stopping)
	<-it.stopped
	say("%s: %d, the longest took %.2f s, %d errors", it.name, it.done, it.longest.Seconds(), len(it.failed))
}

type clusterScenario struct {
	session *gocql.Session
	pairs   *load
	appends *load
}

func runCluster() {
	s := &clusterScenario{}
	check("connect and define", s.define)
	s.pairs = startLoad("pairs", s.pair)
	s.appends = startLoad("appends", s.appendOnce)
	check("a load runs", func() error { return s.goOn(20) })
	ours, err := askHarness("KILL 3")
	check("the harness answers", func() error { return err })
	if ours {
		check("a node is killed under load", s.killed)
		check("a node is drained under load", s.drained)
		check("all nodes are restarted under load, one after the other", s.restarted)
		check("a node joins and is decommissioned under load", s.joined)
	} else {
		say("skip what is done to nodes: they are not ours")
	}
	s.pairs.end()
	s.appends.end()
	check("nothing that was acknowledged is lost or doubled", s.judge)
	check("drop", func() error { return s.session.Query("DROP KEYSPACE " + clusterKeyspace).Exec() })
	s.session.Close()
}

func (s *clusterScenario) define() error {
	cluster := configuration()
	cluster.Consistency = gocql.LocalQuorum
	// What an application chooses that wants to see no error: another node is asked, a few times. It counts for idempotent statements.
	cluster.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: 5}
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	session, err := cluster.CreateSession()
	if err != nil {
		return err
	}
	s.session = session
	for _, statement := range []string{
		"DROP KEYSPACE IF EXISTS " + clusterKeyspace,
		"CREATE KEYSPACE " + clusterKeyspace + " WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
		"CREATE TABLE " + clusterKeyspace + ".loaded (id int PRIMARY KEY, v text)",
		"CREATE TABLE " + clusterKeyspace + ".appended (id int PRIMARY KEY, l list<int>)",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// pair writes and reads back, with the retry policy of the session: no error may come through it.
func (s *clusterScenario) pair(number int) error {
	value := fmt.Sprintf("v%d", number)
	insert := s.session.Query("INSERT INTO "+clusterKeyspace+".loaded (id, v) VALUES (?, ?)", number, value).Idempotent(true)
	if err := insert.Exec(); err != nil {
		return err
	}
	var found string
	if err := s.session.Query("SELECT v FROM "+clusterKeyspace+".loaded WHERE id = ?", number).Idempotent(true).Scan(&found); err != nil {
		return err
	}
	return equal(found, value)
}

// appendOnce is asked for once: a retry could append twice. What fails is open.
func (s *clusterScenario) appendOnce(number int) error {
	statement := "UPDATE " + clusterKeyspace + ".appended SET l = l + ? WHERE id = ?"
	once := &gocql.SimpleRetryPolicy{NumRetries: 0}
	return s.session.Query(statement, []int{number}, number/listMax).RetryPolicy(once).Idempotent(false).Exec()
}

// goOn waits until both went on, and no error came through the retry policy.
func (s *clusterScenario) goOn(count int) error {
	for _, it := range []*load{s.pairs, s.appends} {
		before := it.count()
		err := eventually(fmt.Sprintf("%d more %s are done", count, it.name), func() error {
			if done := it.count(); done < before+count {
				return fmt.Errorf("%d", done-before)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.pairs.mutex.Lock()
	defer s.pairs.mutex.Unlock()
	return equal(s.pairs.failed, map[int]error{})
}

// caughtUp: of four nodes only one may be away, so the next one goes when this one has everything but what is just being written.
func (s *clusterScenario) caughtUp() error {
	return eventually("nobody is behind", func() error {
		var set int64
		written := "SELECT id FROM system_helenus.physical_partitions WHERE space = ? LIMIT 1"
		if err := s.session.Query(written, clusterKeyspace).Idempotent(true).Scan(&set); err != nil {
			return err
		}
		members := s.session.Query("SELECT lag, leader FROM system_helenus.replicas WHERE set_id = ?", set).Idempotent(true).Iter()
		var lag, leader *int64
		count := 0
		for members.Scan(&lag, &leader) {
			count++
			if lag == nil || *lag >= 20 || leader == nil {
				members.Close()
				return fmt.Errorf("one is behind")
			}
		}
		if err := members.Close(); err != nil {
			return err
		}
		if count < clusterNodes {
			return fmt.Errorf("%d members", count)
		}
		return nil
	})
}

// steps does one thing after the other, up to the first that fails.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func please(what string) func() error {
	return func() error {
		_, err := askHarness(what)
		return err
	}
}

func (s *clusterScenario) more(count int) func() error {
	return func() error { return s.goOn(count) }
}

func (s *clusterScenario) killed() error {
	return steps(s.more(50), please("START 3"), s.caughtUp, s.more(50))
}

func (s *clusterScenario) drained() error {
	return steps(please("DRAIN 2"), s.more(50), please("UNDRAIN 2"), s.more(50))
}

func (s *clusterScenario) restarted() error {
	for node := 1; node <= clusterNodes; node++ {
		err := steps(please(fmt.Sprint("DRAIN ", node)), please(fmt.Sprint("STOP ", node)), s.more(20),
			please(fmt.Sprint("START ", node)), please(fmt.Sprint("UNDRAIN ", node)), s.caughtUp, s.more(20))
		if err != nil {
			return fmt.Errorf("node %d: %w", node, err)
		}
	}
	return nil
}

func (s *clusterScenario) joined() error {
	return steps(please("ADD"), s.more(50), please("DECOMMISSION"), s.caughtUp, s.more(50))
}

func (s *clusterScenario) judge() error {
	for number := 0; number < s.pairs.done; number++ {
		var found string
		query := s.session.Query("SELECT v FROM "+clusterKeyspace+".loaded WHERE id = ?", number).Idempotent(true)
		if err := query.Scan(&found); err != nil {
			return fmt.Errorf("row %d: %w", number, err)
		}
		if err := equal(found, fmt.Sprintf("v%d", number)); err != nil {
			return err
		}
	}
	times := map[int]int{}
	var elements []int
	lists := s.session.Query("SELECT l FROM " + clusterKeyspace + ".appended").Idempotent(true).Iter()
	for lists.Scan(&elements) {
		for _, element := range elements {
			times[element]++
		}
	}
	if err := lists.Close(); err != nil {
		return err
	}
	for number := 0; number < s.appends.done; number++ {
		_, isOpen := s.appends.failed[number]
		if found := times[number]; found > 1 || found == 0 && !isOpen {
			return fmt.Errorf("append %d is there %d times", number, found)
		}
		delete(times, number)
	}
	return equal(times, map[int]int{})
}
