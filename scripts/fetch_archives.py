#!/usr/bin/env python3
"""Fetches the pinned archives of scripts/archives.txt into the cache folder and unpacks what the build needs.

Usage: fetch_archives.py [--list FILE] [--cache DIR] [--without SECTION]
The index is PyPI's simple index, or the one named by PIP_INDEX_URL. Every file is checked against its SHA-256 before it
is unpacked. An archive that is already unpacked with the same checksum is skipped, so a second run costs milliseconds.
Exit status: 0 all present, 1 with one line that names the archive, the reason and the remedy.
"""

import argparse
import hashlib
import html.parser
import os
import pathlib
import ssl
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHUNK_BYTES = 1 << 20
TRIES = 3
SECONDS_BETWEEN_LINES = 5  # of progress


class FetchError(Exception):
    """One line for the user: what, why, remedy."""


class LinkFinder(html.parser.HTMLParser):
    """Finds the link of one file on a page of the simple repository API."""

    def __init__(self, file_name):
        super().__init__()
        self.file_name = file_name
        self.href = None

    def handle_starttag(self, tag, attrs):
        href = dict(attrs).get("href") if tag == "a" else None
        if href and urllib.parse.urlparse(href).path.endswith("/" + self.file_name):
            self.href = href


class Archive:
    """One line of the list."""

    def __init__(self, line, cache):
        fields = line.split()
        if len(fields) != 5:
            raise FetchError(f"archives list: expected 5 fields, got {len(fields)} in '{line}'")
        self.project, self.file_name, self.sha256, folder, members = fields
        self.folder = cache / folder
        self.members = None if members == "*" else tuple(members.split(","))
        # The stamp names what was unpacked, so that a new pin or other members unpack again.
        key = hashlib.sha256(line.encode()).hexdigest()[:16]
        self.stamp = cache / "stamps" / f"{self.file_name}.{key}"
        self.download = cache / "downloads" / self.file_name

    def wanted(self, member):
        return self.members is None or member.startswith(self.members)


def open_url(url):
    cafile = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=cafile if cafile and os.path.exists(cafile) else None)
    request = urllib.request.Request(url, headers={"Accept": "text/html, */*"})
    return urllib.request.urlopen(request, timeout=60, context=context)


def find_url(archive):
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    page_url = f"{index}/{archive.project}/"
    with open_url(page_url) as response:
        finder = LinkFinder(archive.file_name)
        finder.feed(response.read().decode("utf-8", "replace"))
        if not finder.href:
            raise FetchError(f"{archive.file_name}: not on {page_url}; is PIP_INDEX_URL a full mirror of PyPI?")
        return urllib.parse.urljoin(response.geturl(), finder.href)


def checksum(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(CHUNK_BYTES), b""):
            digest.update(block)
    return digest.hexdigest()


def copy_with_progress(response, out):
    """A line every few seconds says how much of the file is left, and for how long at this speed."""
    size = int(response.headers.get("Content-Length") or 0)
    start = said = time.monotonic()
    done = 0
    while block := response.read(CHUNK_BYTES):
        out.write(block)
        done += len(block)
        now = time.monotonic()
        if size > done and now - said >= SECONDS_BETWEEN_LINES:
            said = now
            print(f"  {done >> 20} of {size >> 20} MiB, {(size - done) * (now - start) / done:.0f} s left", flush=True)


def download(archive, place):
    """Downloads to a temporary name and renames, so that an interrupted run leaves no half file."""
    if archive.download.exists() and checksum(archive.download) == archive.sha256:
        return
    archive.download.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.download.with_suffix(archive.download.suffix + f".{os.getpid()}.part")
    for attempt in range(1, TRIES + 1):
        try:
            print(f"fetching {archive.file_name} ({place})", flush=True)
            with open_url(find_url(archive)) as response, open(partial, "wb") as out:
                copy_with_progress(response, out)
            break
        except (urllib.error.URLError, OSError) as error:
            partial.unlink(missing_ok=True)
            if attempt == TRIES:
                raise FetchError(
                    f"{archive.file_name}: download failed after {TRIES} tries ({error}); check the network, or put "
                    f"the file into {archive.download.parent} yourself and run scripts/setup again"
                ) from error
    found = checksum(partial)
    if found != archive.sha256:
        partial.unlink()
        raise FetchError(
            f"{archive.file_name}: SHA-256 is {found}, pinned is {archive.sha256}; the file was deleted: "
            "try again, and if it differs again do not trust that index"
        )
    partial.rename(archive.download)


def safe_target(folder, member):
    target = (folder / member).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise FetchError(f"{member}: leaves the cache folder; refusing to unpack")
    return target


def unpack(archive):
    archive.folder.mkdir(parents=True, exist_ok=True)
    if archive.file_name.endswith(".whl"):
        with zipfile.ZipFile(archive.download) as wheel:
            for member in wheel.infolist():
                if archive.wanted(member.filename) and not member.is_dir():
                    target = safe_target(archive.folder, member.filename)
                    wheel.extract(member, archive.folder)
                    if member.external_attr >> 16 & 0o111:  # extract() forgets that the compiler is a program
                        target.chmod(0o755)
        return
    with tarfile.open(archive.download) as source:
        for member in source:
            if member.isfile() and archive.wanted(member.name):
                safe_target(archive.folder, member.name)
                source.extract(member, archive.folder)


def fetch(archive, place):
    download(archive, place)
    unpack(archive)
    archive.stamp.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=archive.stamp.parent, delete=False) as stamp:
        stamp.write(archive.sha256.encode())
    os.replace(stamp.name, archive.stamp)
    archive.download.unlink()  # 500 MB that are not read again


def read_list(path, cache, without):
    archives = []
    section = None
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.strip() and not line.startswith("#") and section not in without:
            archives.append(Archive(line, cache))
    return archives


def default_cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "shardscope"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", type=pathlib.Path, default=ROOT / "scripts" / "archives.txt")
    parser.add_argument("--cache", type=pathlib.Path, default=default_cache())
    parser.add_argument("--without", action="append", default=[], metavar="SECTION", help="leave out what the list has in this section")
    options = parser.parse_args()
    try:
        missing = [archive for archive in read_list(options.list, options.cache, options.without) if not archive.stamp.exists()]
        for number, archive in enumerate(missing, 1):
            fetch(archive, f"{number} of {len(missing)}")
    except (FetchError, OSError, zipfile.BadZipFile, tarfile.TarError) as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
