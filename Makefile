# Directed Point. `make help` lists what can be made.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
INSTALL ?= install

bindir = $(DESTDIR)$(PREFIX)/bin
# dp looks for the shim in ../lib/dp from where it is itself.
shimdir = $(DESTDIR)$(PREFIX)/lib/dp
mandir = $(DESTDIR)$(PREFIX)/share/man

target = $(or $(CARGO_TARGET_DIR),target)
man1 = $(notdir $(wildcard man/*.1))
man5 = $(notdir $(wildcard man/*.5))
man7 = $(notdir $(wildcard man/*.7))

.PHONY: help build demo check check-long bench install uninstall clean

help:
	@echo 'make build       the command dp and the shim, in $(target)/release'
	@echo 'make demo        redis-server and redis-benchmark over TCP, AF_UNIX and DP, side by side'
	@echo 'make check       everything a change must pass (set CI=true to let skips fail)'
	@echo 'make check-long  the same, then soaks, storms and licences'
	@echo 'make bench       the table of targets: programs over TCP and over DP, and one edge; ARGS=--help'
	@echo 'make install     to PREFIX=$(PREFIX), below DESTDIR=$(DESTDIR)'
	@echo 'make uninstall   takes away what install put there'
	@echo 'make clean       removes $(target)'

build:
	$(CARGO) build --release -p dpfd -p dp-preload

demo:
	@CARGO='$(CARGO)' ./.ci/demo $(ARGS)

check:
	./.ci/check

check-long:
	./.ci/check long

bench:
	@./.ci/tools redis-server redis-benchmark redis-cli iperf3
	$(CARGO) build --release
	$(target)/release/programs_bench $(ARGS)

# Does not build: `make build`, then `sudo make install`.
install:
	@test -x $(target)/release/dp && test -f $(target)/release/libdp_preload.so || \
		{ echo 'install: $(target)/release has no dp and libdp_preload.so; run make build first' >&2; exit 1; }
	$(INSTALL) -d $(bindir) $(shimdir) $(mandir)/man1 $(mandir)/man5 $(mandir)/man7
	$(INSTALL) -m 755 $(target)/release/dp $(bindir)/dp
	$(INSTALL) -m 755 $(target)/release/libdp_preload.so $(shimdir)/libdp_preload.so
	$(INSTALL) -m 644 $(addprefix man/,$(man1)) $(mandir)/man1
	$(INSTALL) -m 644 $(addprefix man/,$(man5)) $(mandir)/man5
	$(INSTALL) -m 644 $(addprefix man/,$(man7)) $(mandir)/man7

uninstall:
	rm -f $(bindir)/dp $(shimdir)/libdp_preload.so
	rm -f $(addprefix $(mandir)/man1/,$(man1)) $(addprefix $(mandir)/man5/,$(man5)) $(addprefix $(mandir)/man7/,$(man7))
	-rmdir $(shimdir) 2>/dev/null

clean:
	$(CARGO) clean
