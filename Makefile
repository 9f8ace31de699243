# Daily work. `make check` is what the continuous integration runs.
PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
CARGO_TARGET_DIR ?= target
FUZZ_SECONDS ?= 60

built = $(CARGO_TARGET_DIR)/release/icdc
share = $(DESTDIR)$(PREFIX)/share

.PHONY: all build check test demo bench dist dist-check docs fmt fuzz packages image install uninstall clean

all: build

build:
	$(CARGO) build --release --locked --package icdc

check:
	./test.sh

test:
	$(CARGO) test --workspace --locked

demo:
	./demo.sh

# Records under bench/runs; as root, or by sudo.
bench: build
	scripts/setup.sh bench
	set -e; for scenario in copy-file copy-files; do \
	    $(if $(filter 0,$(shell id -u)),,sudo) ICDC=$(built) bench/record.sh "$$scenario"; \
	done

# One static program for each architecture, with what belongs to it, in dist/: for hosts without a compiler.
dist:
	scripts/dist.sh build

# As root, or by sudo: whether they run in bare roots of Debian 11 to 13, and whether a second build gives the same bytes.
dist-check:
	$(if $(filter 0,$(shell id -u)),,sudo) scripts/dist.sh check
	scripts/dist.sh reproduce

# The pages as a book with search, under target/book; needs mdbook (test.sh installs it).
docs:
	@set -e; pages="$(abspath $(CARGO_TARGET_DIR))/book-pages"; rm -rf "$$pages"; mkdir -p "$$pages"; \
	{ find . \( -path ./bench/runs -o -path ./.git -o -path ./.github -o -name target \) -prune -o -name '*.md' -print; \
	    ls LICENSE-APACHE LICENSE-MIT allowed_signers crates/cc/c/icdc.c crates/rate/src/bundle.rs crates/rate/src/bundle/compete.rs crates/rate/src/bundle/scarcity.rs crates/rate/src/path_ceiling.rs \
	        crates/session/src/sender/packs.rs docs/config.toml; } \
	    | xargs cp --parents --target-directory "$$pages"; \
	cp docs/book/book.toml "$$pages"; cp docs/book/SUMMARY.md.in "$$pages/SUMMARY.md"; \
	mdbook build "$$pages" --dest-dir "$(abspath $(CARGO_TARGET_DIR))/book"

fmt:
	$(CARGO) fmt --all
	$(CARGO) fmt --all --manifest-path fuzz/Cargo.toml

# Every fuzz target for FUZZ_SECONDS each.
fuzz:
	scripts/fuzz.sh all $(FUZZ_SECONDS)

# deb, rpm and OCI images of what `make dist` has built, beside it; PROGRAMS= names other programs that are linked statically.
DIST ?= dist
VERSION ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
PROGRAMS ?= $(DIST)/icdc-$(VERSION)-x86_64.tar.gz $(DIST)/icdc-$(VERSION)-aarch64.tar.gz

packages:
	packages/build.sh $(DIST) $(PROGRAMS)

image:
	packages/image.sh $(DIST) $(PROGRAMS)

# Build first as yourself, then install as root: nothing is compiled here.
install:
	@test -x $(built) || { echo "run make first" >&2; exit 1; }
	set -e; generated=$$(mktemp -d); trap 'rm -rf "$$generated"' EXIT; \
	mkdir "$$generated/man" "$$generated/completions"; \
	$(built) generate man "$$generated/man"; \
	$(built) generate completions "$$generated/completions"; \
	install -D -m 755 $(built) $(DESTDIR)$(PREFIX)/bin/icdc; \
	install -d $(share)/man/man1; \
	install -m 644 "$$generated"/man/*.1 $(share)/man/man1/; \
	install -D -m 644 "$$generated/completions/icdc.bash" $(share)/bash-completion/completions/icdc; \
	install -D -m 644 "$$generated/completions/_icdc" $(share)/zsh/site-functions/_icdc; \
	install -D -m 644 "$$generated/completions/icdc.fish" $(share)/fish/vendor_completions.d/icdc.fish

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/icdc $(share)/man/man1/icdc.1 $(share)/man/man1/icdc-*.1
	rm -f $(share)/bash-completion/completions/icdc $(share)/zsh/site-functions/_icdc $(share)/fish/vendor_completions.d/icdc.fish

clean:
	$(CARGO) clean
