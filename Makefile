# Directed Point. `make help` lists what can be made.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
INSTALL ?= install

bindir = $(DESTDIR)$(PREFIX)/bin
libdir = $(DESTDIR)$(PREFIX)/lib
includedir = $(DESTDIR)$(PREFIX)/include
# dp looks for the shim in ../lib/dp from where it is itself.
shimdir = $(DESTDIR)$(PREFIX)/lib/dp
mandir = $(DESTDIR)$(PREFIX)/share/man

target = $(or $(CARGO_TARGET_DIR),target)
version = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# What Rust's own library needs; the compiler adds its unwinder itself, shared or (-static) not.
c_libs = -lpthread -lm -ldl
man1 = $(notdir $(wildcard man/*.1))
man3 = $(notdir $(wildcard man/*.3))
man4 = $(notdir $(wildcard man/*.4))
man5 = $(notdir $(wildcard man/*.5))
man7 = $(notdir $(wildcard man/*.7))
man8 = $(notdir $(wildcard man/*.8))

.PHONY: help build libdp demo check check-long check-kernel check-kernel-debug demo-kernel figures-kernel \
	figures-kernel-smc profile-kernel bench install uninstall clean

help:
	@echo 'make build       the command dp, the shim and libdp, in $(target)/release'
	@echo 'make demo        redis-server and redis-benchmark over TCP, AF_UNIX and DP, side by side'
	@echo 'make check       everything a change must pass (set CI=true to let skips fail)'
	@echo 'make check-long  the same, then soaks, storms, sanitizers in user space and kernel, and licences'
	@echo 'make check-kernel  builds the kernel driver and tests it in a booted kernel (root, QEMU by itself)'
	@echo 'make check-kernel-debug  the same in a kernel that watches: KASAN, lockdep, kmemleak, failing allocations'
	@echo 'make demo-kernel   the kernel driver at work in a booted kernel: messages, and figures'
	@echo 'make figures-kernel  all that is measured of it, with one CPU and with two'
	@echo 'make figures-kernel-smc  the same round trip beside SMC-D, in a small kernel that has it'
	@echo 'make profile-kernel  the instructions of a round trip in the kernel, by function'
	@echo 'make bench       DP beside every system that carries messages on one machine, and programs over TCP and DP;'
	@echo '                 $(target)/bench/report.md, 25 minutes; ARGS=--quick a few, ARGS=--help'
	@echo 'make install     to PREFIX=$(PREFIX), below DESTDIR=$(DESTDIR)'
	@echo 'make uninstall   takes away what install put there'
	@echo 'make clean       removes $(target)'

build:
	$(CARGO) build --release -p dp-cli -p dp-preload -p dp-capi
	@$(MAKE) --no-print-directory libdp

# A cdylib has neither versions of its symbols nor a SONAME: the static library is linked once more, whole.
libdp: $(target)/release/libdp.so.1

$(target)/release/libdp.so.1: $(target)/release/libdp.so
	ln -sf libdp.so $@

$(target)/release/libdp.so: $(target)/release/libdp.a dpfd/capi/libdp.map
	$(CC) -shared -o $@.$$$$ -Wl,-soname,libdp.so.1 -Wl,--version-script,dpfd/capi/libdp.map \
		-Wl,--whole-archive $< -Wl,--no-whole-archive -Wl,--gc-sections -Wl,--as-needed -Wl,-z,now \
		-Wl,-z,nodelete -Wl,-z,defs $(c_libs) && mv $@.$$$$ $@

demo:
	@CARGO='$(CARGO)' ./.ci/demo $(ARGS)

check:
	./.ci/check

check-long:
	./.ci/check long

check-kernel:
	./.ci/kernel test

check-kernel-debug:
	./.ci/kernel debug

demo-kernel:
	@./.ci/kernel demo

figures-kernel:
	@./.ci/kernel figures

figures-kernel-smc:
	@./.ci/kernel smc

profile-kernel:
	@./.ci/kernel-profile $(ARGS)

bench:
	@CARGO='$(CARGO)' ./.ci/bench $(ARGS)

# Does not build: `make build`, then `sudo make install`.
install:
	@for f in dp libdp_preload.so libdp.so libdp.a; do test -f $(target)/release/$$f || \
		{ echo "install: $(target)/release has no $$f; run make build first" >&2; exit 1; }; done
	$(INSTALL) -d $(bindir) $(shimdir) $(libdir)/pkgconfig $(includedir) $(addprefix $(mandir)/man,1 3 4 5 7 8)
	$(INSTALL) -m 755 $(target)/release/dp $(bindir)/dp
	$(INSTALL) -m 755 $(target)/release/libdp_preload.so $(shimdir)/libdp_preload.so
	$(INSTALL) -m 755 $(target)/release/libdp.so $(libdir)/libdp.so.1
	ln -sf libdp.so.1 $(libdir)/libdp.so
	$(INSTALL) -m 644 $(target)/release/libdp.a $(libdir)/libdp.a
	$(INSTALL) -m 644 dpfd/capi/include/dp.h $(includedir)/dp.h
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(version)|' -e 's|@LIBS@|$(c_libs)|' dpfd/capi/dp.pc.in \
		>$(libdir)/pkgconfig/dp.pc
	$(INSTALL) -m 644 $(addprefix man/,$(man1)) $(mandir)/man1
	$(INSTALL) -m 644 $(addprefix man/,$(man3)) $(mandir)/man3
	$(INSTALL) -m 644 $(addprefix man/,$(man4)) $(mandir)/man4
	$(INSTALL) -m 644 $(addprefix man/,$(man5)) $(mandir)/man5
	$(INSTALL) -m 644 $(addprefix man/,$(man7)) $(mandir)/man7
	$(INSTALL) -m 644 $(addprefix man/,$(man8)) $(mandir)/man8

uninstall:
	rm -f $(bindir)/dp $(shimdir)/libdp_preload.so $(addprefix $(libdir)/libdp,.so .so.1 .a)
	rm -f $(includedir)/dp.h $(libdir)/pkgconfig/dp.pc
	rm -f $(addprefix $(mandir)/man1/,$(man1)) $(addprefix $(mandir)/man3/,$(man3))
	rm -f $(addprefix $(mandir)/man4/,$(man4)) $(addprefix $(mandir)/man5/,$(man5)) $(addprefix $(mandir)/man7/,$(man7))
	rm -f $(addprefix $(mandir)/man8/,$(man8))
	-rmdir $(shimdir) 2>/dev/null

clean:
	$(CARGO) clean
