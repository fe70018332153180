//! Events for clients that registered for them.

use std::sync::Arc;

use parking_lot::Mutex;
use protocol::{Event, EventKinds};
use tokio::sync::mpsc;

/// Events a connection may be behind. One that is further behind is closed: its driver connects
/// again and reads everything anew, which is right, where a lost event would not be.
const EVENTS_BEHIND_MAX: usize = 256;

/// Who wants to know what.
#[derive(Default)]
pub(crate) struct EventHub {
    subscribers: Mutex<Vec<Subscriber>>,
}

struct Subscriber {
    kinds: EventKinds,
    sender: mpsc::Sender<Arc<Event>>,
}

/// The receiving end of one connection; closed when the connection fell too far behind.
pub(crate) type EventQueue = mpsc::Receiver<Arc<Event>>;

impl EventHub {
    /// Events of these kinds from now on.
    pub(crate) fn subscribe(&self, kinds: EventKinds) -> EventQueue {
        let (sender, receiver) = mpsc::channel(EVENTS_BEHIND_MAX);
        let mut subscribers = self.subscribers.lock();
        // Those whose connection is gone leave here, so that they cannot pile up.
        subscribers.retain(|subscriber| !subscriber.sender.is_closed());
        subscribers.push(Subscriber { kinds, sender });
        receiver
    }

    /// Tells everybody who wants to know.
    pub(crate) fn publish(&self, event: Event) {
        let event = Arc::new(event);
        self.subscribers.lock().retain(|subscriber| {
            !subscriber.kinds.wants(&event)
                || subscriber.sender.try_send(Arc::clone(&event)).is_ok()
        });
    }
}

#[cfg(test)]
mod tests {
    use protocol::NodeStatus;

    use super::*;

    fn event() -> Event {
        Event::StatusChange { status: NodeStatus::Up, address: "127.0.0.1:9042".parse().unwrap() }
    }

    #[test]
    fn only_those_who_want_it_and_keep_up_are_told() {
        let hub = EventHub::default();
        let mut wants = hub.subscribe(EventKinds { status_change: true, ..EventKinds::default() });
        let mut other = hub.subscribe(EventKinds { schema_change: true, ..EventKinds::default() });
        hub.publish(event());
        assert_eq!(*wants.try_recv().unwrap(), event());
        assert!(matches!(other.try_recv(), Err(mpsc::error::TryRecvError::Empty)));
        for _ in 0..=EVENTS_BEHIND_MAX {
            hub.publish(event());
        }
        for _ in 0..EVENTS_BEHIND_MAX {
            wants.try_recv().unwrap();
        }
        assert!(matches!(wants.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
    }
}
