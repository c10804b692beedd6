//! What `dp bench` does, by iceoryx2: iceoryx2_bench lat|flood copied|in-place|untouched BYTES SECONDS FOLDER first|second
//!
//! `copied` copies each message out of the sample it came in, `in-place` adds up its words there, and neither side of
//! `untouched` looks at more than the last byte: what passing a pointer costs. Senders of the first two copy the message
//! into the sample they have loaned. The first process measures, the second answers or takes; the first prints one line
//! of JSON.

use std::hint::{black_box, spin_loop};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory as Direction;

const BATCH: u32 = 16;
const WARM_UP: u32 = 2 * BATCH;
const KEPT: usize = 100_000;
/// Round trips that take longer are not timed in batches.
const LONG: Duration = Duration::from_millis(1);
/// Tells the other process that a turn ends.
const STOP: u8 = 0xff;
/// How long the two may take to meet, and how long nothing may come.
const PATIENCE: Duration = Duration::from_secs(20);
/// Looks that find nothing, until the clock is looked at.
const LOOKS: u32 = 1 << 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Service = ipc::Service;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Copied,
    InPlace,
    Untouched,
}

/// Both directions.
struct Link {
    to: Publisher<Service, [u8], ()>,
    from: Subscriber<Service, [u8], ()>,
    out: Direction<Service, [u8], ()>,
    touch: Touch,
    buffer: Vec<u8>,
}

fn direction(node: &Node<Service>, name: &str, size: usize) -> Result<Direction<Service, [u8], ()>> {
    let builder = node.service_builder(&name.try_into()?).publish_subscribe::<[u8]>();
    // Nothing is dropped, and there is room for as much as DP's edges have.
    let service = builder
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(((1 << 20) / size).clamp(2, 64))
        .subscriber_max_borrowed_samples(2)
        .history_size(0)
        .max_publishers(1)
        .max_subscribers(1)
        .open_or_create()?;
    Ok(service)
}

fn publisher(service: &Direction<Service, [u8], ()>, size: usize) -> Result<Publisher<Service, [u8], ()>> {
    let builder = service.publisher_builder().initial_max_slice_len(size).max_loaned_samples(1);
    Ok(builder.backpressure_strategy(BackpressureStrategy::RetryUntilDelivered).create()?)
}

impl Link {
    fn new(folder: &str, size: usize, touch: Touch, first: bool) -> Result<Link> {
        let mut config = Config::default();
        config.global.set_root_path(&folder.try_into()?);
        // A reader of /dev/shm sees whose its files are.
        config.global.prefix = "dp-bench-iceoryx2-".try_into()?;
        let node = NodeBuilder::new().config(&config).create::<Service>()?;
        let (ab, ba) = (direction(&node, "there", size)?, direction(&node, "back", size)?);
        let (out, back) = if first { (ab, ba) } else { (ba, ab) };
        let from = back.subscriber_builder().create()?;
        let to = publisher(&out, size)?;
        let begin = Instant::now();
        let met = |service: &Direction<Service, [u8], ()>| {
            let there = service.dynamic_config();
            there.number_of_subscribers() == 1 && there.number_of_publishers() == 1
        };
        while !(met(&out) && met(&back)) {
            if begin.elapsed() > PATIENCE {
                return Err("the other process did not come".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Link { to, from, out, touch, buffer: vec![0; size] })
    }

    /// Until nobody needs the memory of what was sent last.
    fn linger(&self) {
        let begin = Instant::now();
        while self.out.dynamic_config().number_of_subscribers() > 0 && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let loan = self.to.loan_slice_uninit(message.len())?;
        if self.touch == Touch::Untouched {
            let mut loan = loan;
            if let (Some(to), Some(last)) = (loan.payload_mut().last_mut(), message.last()) {
                to.write(*last);
            }
            // SAFETY: any byte is a u8, and the receiver looks at the last one alone.
            unsafe { loan.assume_init() }.send()?;
        } else {
            loan.write_from_slice(message).send()?;
        }
        Ok(())
    }

    /// Waits for a message; its last byte.
    #[inline(always)]
    fn recv(&mut self) -> Result<u8> {
        let mut looks = 0;
        let mut since = None;
        loop {
            if let Some(sample) = self.from.receive()? {
                let bytes = sample.payload();
                match self.touch {
                    Touch::Copied => {
                        self.buffer[..bytes.len()].copy_from_slice(bytes);
                        black_box(&mut self.buffer);
                    }
                    Touch::InPlace => {
                        let word = |eight: &[u8]| eight.try_into().map_or(0, u64::from_ne_bytes);
                        let add = |sum: u64, eight| sum.wrapping_add(word(eight));
                        black_box(bytes.chunks_exact(8).fold(0, add));
                    }
                    Touch::Untouched => {}
                }
                return Ok(bytes.last().copied().unwrap_or(STOP));
            }
            spin_loop();
            looks += 1;
            if looks % LOOKS == 0 && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err("nothing came".into());
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("iceoryx2_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let [what, touch, size, seconds, folder, side] = arguments else {
        return Err("lat|flood copied|in-place|untouched BYTES SECONDS FOLDER first|second".into());
    };
    let touch = match touch.as_str() {
        "copied" => Touch::Copied,
        "in-place" => Touch::InPlace,
        "untouched" => Touch::Untouched,
        other => return Err(format!("{other}: copied, in-place or untouched").into()),
    };
    let (size, time) = (size.parse::<usize>()?, Duration::from_secs_f64(seconds.parse()?));
    let mut link = Link::new(folder, size, touch, side == "first")?;
    match (what.as_str(), side.as_str()) {
        ("lat", "first") => latency(&mut link, size, time),
        ("lat", "second") => echo(&mut link, size),
        ("flood", "first") => pour(&mut link, size, time),
        ("flood", "second") => drain(&mut link),
        _ => Err(format!("{what} {side}: lat or flood, first or second").into()),
    }
}

fn latency(link: &mut Link, size: usize, time: Duration) -> Result<()> {
    let mut message = vec![0; size];
    let round_trip = |link: &mut Link| -> Result<()> {
        link.send(&message)?;
        link.recv()?;
        Ok(())
    };
    let begin = Instant::now();
    let mut trips = 0;
    while trips < WARM_UP && (trips == 0 || begin.elapsed() < time / 10) {
        round_trip(link)?;
        trips += 1;
    }
    let batch = if begin.elapsed() > LONG * trips { 1 } else { BATCH };
    let clock = clock_cost();
    let one_way = |from: Instant, to: Instant, trips: u32| {
        (to.duration_since(from).as_nanos() as f64 - clock).max(0.0) / f64::from(2 * trips)
    };
    let (mut batches, mut singles) = (Vec::new(), Vec::with_capacity(KEPT));
    let start = Instant::now();
    let mut last = start;
    while batches.is_empty() || last.duration_since(start) < time / 2 {
        for _ in 0..batch {
            round_trip(link)?;
        }
        let now = Instant::now();
        batches.push(one_way(last, now, batch));
        last = now;
    }
    while singles.is_empty() || last.duration_since(start) < time && singles.len() < KEPT {
        round_trip(link)?;
        let now = Instant::now();
        singles.push(one_way(last, now, 1));
        last = now;
    }
    message[size - 1] = STOP;
    link.send(&message)?;
    link.recv()?;
    let (p50, p99, p999) =
        (percentile(&mut batches, 500), percentile(&mut singles, 990), percentile(&mut singles, 999));
    println!("{{\"p50_ns\": {p50:.1}, \"p99_ns\": {p99:.1}, \"p999_ns\": {p999:.1}}}");
    Ok(())
}

fn echo(link: &mut Link, size: usize) -> Result<()> {
    let mut message = vec![0; size];
    loop {
        message[size - 1] = link.recv()?;
        link.send(&message)?;
        if message[size - 1] == STOP {
            link.linger();
            return Ok(());
        }
    }
}

/// Sends for this time; the other process answers when it has them all.
fn pour(link: &mut Link, size: usize, time: Duration) -> Result<()> {
    let mut message = vec![0; size];
    let (start, used) = (Instant::now(), cpu_seconds());
    let mut messages = 0u64;
    while start.elapsed() < time {
        for _ in 0..64.min((1 << 22) / size).max(1) {
            link.send(&message)?;
            messages += 1;
        }
    }
    message[size - 1] = STOP;
    link.send(&message)?;
    link.recv()?;
    let (seconds, mine) = (start.elapsed().as_secs_f64(), cpu_seconds() - used);
    // The other one looks all the time, as this one does: it has used as much.
    println!("{{\"messages\": {messages}, \"seconds\": {seconds:.6}, \"cpu_s\": {:.6}}}", 2.0 * mine);
    Ok(())
}

fn drain(link: &mut Link) -> Result<()> {
    while link.recv()? != STOP {}
    link.send(&[STOP])?;
    link.linger();
    Ok(())
}

fn cpu_seconds() -> f64 {
    // SAFETY: all zeros are a rusage, which the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Nanoseconds that one reading of the clock takes.
fn clock_cost() -> f64 {
    let mut costs: Vec<f64> = (0..64).map(|_| Instant::now().elapsed().as_nanos() as f64).collect();
    percentile(&mut costs, 500)
}

/// What so many of 1000 do not exceed.
fn percentile(of: &mut [f64], thousandths: usize) -> f64 {
    of.sort_by(f64::total_cmp);
    of[(of.len() * thousandths).div_ceil(1000).saturating_sub(1)]
}
