//! Servers and clients of Python's standard library.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    selectors_epoll => Pair::python("selectors_echo.py").arg("epoll");
    selectors_select => Pair::python("selectors_echo.py").arg("select");
    selectors_poll => Pair::python("selectors_echo.py").arg("poll");
    asyncio_streams => Pair::python("asyncio_echo.py");
    socketserver_threading => Pair::python("socketserver_echo.py").arg("threading");
    socketserver_forking => Pair::python("socketserver_echo.py").arg("forking");
    http_server_and_urllib => Pair::python("http_fetch.py");
}
