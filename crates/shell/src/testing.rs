//! What the tests of this room share: a node that answers everything alike.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{Builder, JoinHandle};

use bytes::BytesMut;
use protocol::{FrameDecoder, Outgoing, Response, ResponseMessage, Version};

/// A node of version 5 that lets one client in and has one answer. Its address; how many requests it got, once the client has left.
pub(crate) fn ready_node(answer: Response) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || serve(listener.accept().unwrap().0, &answer);
    (address, Builder::new().spawn(serve).unwrap())
}

fn serve(mut stream: TcpStream, answer: &Response) -> usize {
    let mut decoder = FrameDecoder::for_requests(1 << 20);
    let (mut incoming, mut outgoing) = (BytesMut::new(), Outgoing::new());
    let mut count = 0;
    loop {
        while let Some(frame) = decoder.decode(&mut incoming).unwrap() {
            let response = if count == 0 { Response::Ready } else { answer.clone() };
            let message = ResponseMessage::new(response);
            message.encode(Version::V5, frame.stream, outgoing.messages());
            let bytes = outgoing.seal();
            stream.write_all(bytes).unwrap();
            bytes.clear();
            if count == 0 {
                decoder.start(Version::V5, None);
                outgoing.start(Version::V5, None);
            }
            count += 1;
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).unwrap() {
            0 => return count,
            read => incoming.extend_from_slice(&chunk[..read]),
        }
    }
}
