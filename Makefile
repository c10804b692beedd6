# Directed Point. `make help` lists what can be made.

CARGO ?= cargo
# For `make build`, as --locked.
CARGOFLAGS ?=
INSTALL ?= install
# `make install STRIP=` leaves symbols and line numbers in.
STRIP = strip
LDCONFIG = ldconfig

# Folders, by the names of the GNU coding standards; all but DESTDIR can be asked for by what is installed. PREFIX is prefix.
PREFIX ?= /usr/local
DESTDIR ?=
prefix = $(PREFIX)
exec_prefix = $(prefix)
bindir = $(exec_prefix)/bin
libdir = $(exec_prefix)/lib
includedir = $(prefix)/include
datarootdir = $(prefix)/share
datadir = $(datarootdir)
mandir = $(datarootdir)/man
docdir = $(datarootdir)/doc/directed-point
pkgconfigdir = $(libdir)/pkgconfig
bashcompdir = $(datadir)/bash-completion/completions
zshcompdir = $(datadir)/zsh/site-functions
fishcompdir = $(datadir)/fish/vendor_completions.d
grafanadir = $(datadir)/dp/grafana
unitdir = $(prefix)/lib/systemd/system
prometheusdir = $(datadir)/dp/prometheus
bpftracedir = $(datadir)/dp/bpftrace
# The shim. dp looks for it in these folders beside its own, and in the one that it was built for.
shimdir = $(libdir)/dp
other_shimdir = $(filter-out $(addprefix $(dir $(bindir)),lib/dp lib64/dp lib/$(shell uname -m)-linux-gnu/dp),$(shimdir))
# Not for the usual ones: a change of prefix would build dp anew.
ifneq ($(other_shimdir),)
export DP_LIBDIR = $(other_shimdir)
endif

target = $(or $(CARGO_TARGET_DIR),target)
version = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# What Rust's own library needs; the compiler adds its unwinder itself, shared or (-static) not.
c_libs = -lpthread -lm -ldl
sections = 1 3 4 5 7 8
licences = LICENSE-APACHE LICENSE-MIT
# What the crates that are linked in want to be told.
notices = $(target)/release/THIRD-PARTY
# And what they are made of, for programs.
sbom = $(target)/release/directed-point.cdx.json
units = dp-node.service dp-metrics.service
headers = dpfd/capi/include/dp.h dpfd/route/include/dp_route.h

.PHONY: help build libdp notices sbom demo check check-long check-kernel check-kernel-debug demo-kernel figures-kernel \
	figures-kernel-smc profile-kernel bench bench-node deb rpm install uninstall clean

help:
	@echo 'make build       the command dp, the shim and libdp, in $(target)/release'
	@echo 'make demo        redis-server and redis-benchmark over TCP, AF_UNIX and DP, side by side'
	@echo 'make check       everything a change must pass (set CI=true to let skips fail)'
	@echo 'make check-long  the same, then soaks, storms, fuzzers, sanitizers in user space and kernel, and licences'
	@echo 'make check-kernel  builds the kernel driver and tests it in a booted kernel (root, QEMU by itself)'
	@echo 'make check-kernel-debug  the same in a kernel that watches: KASAN, lockdep, kmemleak, failing allocations'
	@echo 'make demo-kernel   the kernel driver at work in a booted kernel: messages, and figures'
	@echo 'make figures-kernel  all that is measured of it, with one CPU and with two'
	@echo 'make figures-kernel-smc  the same round trip beside SMC-D, in a small kernel that has it'
	@echo 'make profile-kernel  the instructions of a round trip in the kernel, by function'
	@echo 'make bench       DP beside every system that carries messages on one machine, and programs over TCP and DP;'
	@echo '                 $(target)/bench/report.md, 25 minutes; ARGS=--quick a few, ARGS=--help'
	@echo 'make bench-node  messages between two nodes beside UDP and TCP on the same cable (root; 6 minutes; ARGS=--quick one)'
	@echo 'make deb         packages for Debian, in $(target)/packages/deb; packaging/README.md'
	@echo 'make rpm         the same as RPMs, in $(target)/packages/rpm'
	@echo 'make sbom        what dp, the shim and libdp are made of, as CycloneDX, in $(target)/release'
	@echo 'make install     to prefix=$(prefix) (also bindir, libdir, mandir, ...), below DESTDIR=$(DESTDIR);'
	@echo '                 STRIP= keeps symbols'
	@echo 'make uninstall   takes away what install put there'
	@echo 'make clean       removes $(target)'

build:
	$(CARGO) build --release $(CARGOFLAGS) -p dp-cli -p dp-preload -p dp-capi
	@$(MAKE) --no-print-directory libdp notices sbom

# A cdylib has neither versions of its symbols nor a SONAME: the static library is linked once more, whole.
libdp: $(target)/release/libdp.so.1

$(target)/release/libdp.so.1: $(target)/release/libdp.so
	ln -sf libdp.so $@

$(target)/release/libdp.so: $(target)/release/libdp.a dpfd/capi/libdp.map
	$(CC) $(LDFLAGS) -shared -o $@.$$$$ -Wl,-soname,libdp.so.1 -Wl,--version-script,dpfd/capi/libdp.map \
		-Wl,--whole-archive $< -Wl,--no-whole-archive -Wl,--gc-sections -Wl,--as-needed -Wl,-z,now \
		-Wl,-z,nodelete -Wl,-z,defs $(c_libs) && mv $@.$$$$ $@

notices: $(notices)

$(notices): Cargo.lock Cargo.toml packaging/notices
	CARGO='$(CARGO)' packaging/notices >$@.new && mv $@.new $@

# Made each time, since the compiler is part of it, and replaced where it differs.
sbom:
	@CARGO='$(CARGO)' packaging/sbom >$(sbom).new && { cmp -s $(sbom).new $(sbom) && rm $(sbom).new || mv $(sbom).new $(sbom); }

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

bench-node:
	@$(CARGO) bench -q -p dp-node --bench targets -- $(ARGS)

deb:
	@CARGO='$(CARGO)' packaging/deb

rpm:
	@CARGO='$(CARGO)' packaging/rpm

# install_whole MODE,FILE,TO: a program that has the former file mapped keeps it.
define install_whole
	$(INSTALL) -m $(1) $(2) $(DESTDIR)$(3).new
	$(if $(STRIP),$(STRIP) $(4) $(DESTDIR)$(3).new)
	mv -f $(DESTDIR)$(3).new $(DESTDIR)$(3)
endef

# The loader knows libraries in its usual folders after ldconfig only; in a package that is the package manager's part.
define tell_loader
	@if [ -n '$(DESTDIR)' ] || [ "$$(id -u)" -ne 0 ]; then :; \
	elif PATH=$$PATH:/usr/sbin:/sbin $(LDCONFIG) -N -X -v 2>/dev/null | grep -q '^$(libdir):'; then \
		PATH=$$PATH:/usr/sbin:/sbin $(LDCONFIG); \
	fi
endef

# Does not build: `make build`, then `sudo make install`.
install:
	@for f in dp libdp_preload.so libdp.so libdp.a $(notdir $(notices) $(sbom)); do test -f $(target)/release/$$f || \
		{ echo "install: $(target)/release has no $$f; run make build first" >&2; exit 1; }; done
	@test -z '$(other_shimdir)' || grep -qaF '$(other_shimdir)' $(target)/release/dp || \
		{ echo "install: this dp would not find the shim in $(shimdir); run make build libdir=$(libdir) first" >&2; exit 1; }
	$(INSTALL) -d $(addprefix $(DESTDIR),$(bindir) $(libdir) $(shimdir) $(includedir) $(pkgconfigdir) $(docdir) \
		$(bashcompdir) $(zshcompdir) $(fishcompdir) $(grafanadir) $(prometheusdir) $(unitdir) $(bpftracedir) \
		$(addprefix $(mandir)/man,$(sections)))
	$(call install_whole,755,$(target)/release/dp,$(bindir)/dp)
	$(call install_whole,755,$(target)/release/libdp_preload.so,$(shimdir)/libdp_preload.so,--strip-unneeded)
	$(call install_whole,755,$(target)/release/libdp.so,$(libdir)/libdp.so.1,--strip-unneeded)
	ln -sf libdp.so.1 $(DESTDIR)$(libdir)/libdp.so
	$(call install_whole,644,$(target)/release/libdp.a,$(libdir)/libdp.a,--strip-debug)
	$(INSTALL) -m 644 $(headers) $(DESTDIR)$(includedir)
	sed -e 's|@PREFIX@|$(prefix)|' -e 's|@LIBDIR@|$(patsubst $(prefix)/%,$${prefix}/%,$(libdir))|' \
		-e 's|@INCLUDEDIR@|$(patsubst $(prefix)/%,$${prefix}/%,$(includedir))|' \
		-e 's|@VERSION@|$(version)|' -e 's|@LIBS@|$(c_libs)|' dpfd/capi/dp.pc.in >$(DESTDIR)$(pkgconfigdir)/dp.pc
	$(foreach n,$(sections),$(INSTALL) -m 644 $(wildcard man/*.$(n)) $(DESTDIR)$(mandir)/man$(n) &&) :
	$(INSTALL) -m 644 $(licences) $(notices) $(sbom) share/dp-preload.conf $(DESTDIR)$(docdir)
	for unit in $(units); do sed 's|/usr/local/bin/|$(bindir)/|' systemd/$$unit >$(DESTDIR)$(unitdir)/$$unit || exit 1; done
	$(INSTALL) -m 644 share/grafana/directed-point.json $(DESTDIR)$(grafanadir)
	$(INSTALL) -m 644 share/prometheus/directed-point.rules.yml $(DESTDIR)$(prometheusdir)
	for script in share/bpftrace/*.bt; do to=$(DESTDIR)$(bpftracedir)/$${script##*/}; \
		sed 's|/usr/local/lib/dp/|$(shimdir)/|' $$script >$$to && chmod 755 $$to || exit 1; done
	$(target)/release/dp completions bash >$(DESTDIR)$(bashcompdir)/dp
	$(target)/release/dp completions zsh >$(DESTDIR)$(zshcompdir)/_dp
	$(target)/release/dp completions fish >$(DESTDIR)$(fishcompdir)/dp.fish
	$(tell_loader)

uninstall:
	rm -f $(addprefix $(DESTDIR),$(bindir)/dp $(shimdir)/libdp_preload.so $(addprefix $(libdir)/libdp,.so .so.1 .a) \
		$(addprefix $(includedir)/,$(notdir $(headers))) $(pkgconfigdir)/dp.pc $(addprefix $(unitdir)/,$(units)) \
		$(addprefix $(docdir)/,$(licences) $(notdir $(notices) $(sbom)) dp-preload.conf) \
		$(bashcompdir)/dp $(zshcompdir)/_dp $(fishcompdir)/dp.fish $(grafanadir)/directed-point.json \
		$(prometheusdir)/directed-point.rules.yml \
		$(addprefix $(bpftracedir)/,$(notdir $(wildcard share/bpftrace/*.bt))) \
		$(foreach n,$(sections),$(addprefix $(mandir)/man$(n)/,$(notdir $(wildcard man/*.$(n))))))
	-rmdir $(DESTDIR)$(shimdir) $(DESTDIR)$(docdir) $(DESTDIR)$(grafanadir) $(DESTDIR)$(prometheusdir) $(DESTDIR)$(bpftracedir) \
		$(DESTDIR)$(datadir)/dp 2>/dev/null
	$(tell_loader)

clean:
	$(CARGO) clean
