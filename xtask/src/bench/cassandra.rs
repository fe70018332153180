//! Starting a real Cassandra from its jars.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use super::tools::Tools;
use super::workload::Phase;
use crate::place;

/// The heap of a node that runs alone and of each of a cluster, unless the user says otherwise.
const HEAP: &str = "3G";
const CLUSTER_HEAP: &str = "768M";
const HEAP_VARIABLE: &str = "CASSANDRA_HEAP";

/// Of Java's own packages, what Cassandra must see (`conf/jvm17-server.options` of its distribution).
const OPENS: [&str; 18] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.util",
    "java.base/java.nio",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.net",
    "java.rmi/sun.rmi.transport.tcp",
];

const EXPORTS: [&str; 12] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.naming.dns/com.sun.jndi.dns",
];

/// The flags of its distribution, and those that let a single node start without waiting for others.
const FLAGS: [&str; 20] = [
    "-ea",
    "-da:net.openhft...",
    "-Xss256k",
    "-XX:+UseG1GC",
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxTenuringThreshold=1",
    "-XX:G1HeapRegionSize=16m",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
    "-XX:+AlwaysPreTouch",
    "-XX:+PerfDisableSharedMem",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.useCacheForAllThreads=true",
    "-Dio.netty.allocator.maxOrder=11",
    "-Djava.net.preferIPv4Stack=true",
    "-Dchronicle.analytics.disable=true",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
];

/// How long a node that joins asks the first one who is there, which on a busy core takes more than a moment.
const ASKS_WITHIN: &str = "-Dcassandra.ring_delay_ms=30000";

const LOGBACK: &str = "<configuration><appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\">\
<encoder><pattern>%-5level %d %msg%n</pattern></encoder></appender>\
<root level=\"WARN\"><appender-ref ref=\"OUT\"/></root></configuration>\n";

/// Writes the configuration of a node for a phase and makes the command that starts it: at that address, with that port
/// for clients and that one for nodes. The node at 127.0.0.1 is the one that all others ask.
pub(crate) fn command(
    tools: &Tools,
    folder: &Path,
    (address, port, storage_port): (Ipv4Addr, u16, u16),
    phase: Phase,
) -> Result<Command, String> {
    let jars = tools.cassandra.as_ref().map_err(String::clone)?;
    let by_itself = if phase == Phase::Cluster { CLUSTER_HEAP } else { HEAP };
    let heap = std::env::var(HEAP_VARIABLE).unwrap_or_else(|_| by_itself.into());
    let conf = folder.join("conf");
    let told = |error: std::io::Error| format!("{}: {error}", conf.display());
    std::fs::create_dir_all(&conf).map_err(told)?;
    let template = place::root().join("benches/cassandra/cassandra.yaml");
    let mut yaml = std::fs::read_to_string(&template)
        .map_err(|error| format!("{}: {error}", template.display()))?
        .replace("@folder@", &folder.display().to_string())
        .replace("@address@", &address.to_string())
        .replace("@port@", &port.to_string())
        .replace("@storage_port@", &storage_port.to_string());
    yaml.push_str(phase_lines(phase));
    std::fs::write(conf.join("cassandra.yaml"), yaml).map_err(told)?;
    std::fs::write(conf.join("logback.xml"), LOGBACK).map_err(told)?;

    let agent = std::fs::read_dir(jars)
        .map_err(|error| format!("{}: {error}", jars.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("jamm-")))
        .ok_or("Cassandra's jars lack jamm")?;
    let mut java = Command::new("java");
    java.args(FLAGS)
        // Of two that contradict each other the later one counts.
        .args((phase == Phase::Cluster).then_some(ASKS_WITHIN))
        .args([format!("-Xms{heap}"), format!("-Xmx{heap}")])
        .args(OPENS.iter().flat_map(|it| ["--add-opens".to_string(), format!("{it}=ALL-UNNAMED")]))
        .args(EXPORTS.iter().flat_map(|it| ["--add-exports".into(), format!("{it}=ALL-UNNAMED")]))
        .arg(format!("-Dcassandra.storagedir={}", folder.join("data").display()))
        .arg(format!("-Dcassandra.logdir={}", folder.join("logs").display()))
        .arg(format!("-Dcassandra.config=file://{}", conf.join("cassandra.yaml").display()))
        .arg(format!("-javaagent:{}", agent.display()))
        .arg("-cp")
        .arg(format!("{}:{}/*", conf.display(), jars.display()))
        .arg("org.apache.cassandra.service.CassandraDaemon");
    Ok(java)
}

/// What a phase changes.
fn phase_lines(phase: Phase) -> &'static str {
    const PERIODIC: &str = "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n";
    match phase {
        Phase::OneCore | Phase::AllCores => PERIODIC,
        Phase::SmallCache => {
            "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\nfile_cache_size: 12MiB\n"
        }
        // Cassandra has no default for it; a window of a few syncs, so that a group gathers.
        Phase::Group => "commitlog_sync: group\ncommitlog_sync_group_window: 10ms\n",
        Phase::Batch => "commitlog_sync: batch\n",
        // A node that joins before there is anything has nothing to fetch.
        Phase::Cluster => {
            "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\nauto_bootstrap: false\n"
        }
    }
}
