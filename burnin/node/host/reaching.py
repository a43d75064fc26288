"""Can this node fetch from these mirrors? One small request each, bounded, over the proxy that its package manager would use."""

from __future__ import annotations

import base64
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Optional, Sequence

from burnin.node.host.reading import Reader

AT_ONCE, MOST_URLS, LONGEST_S = 8, 64, 60.0
BYTES = 1024


def reach(urls: Sequence[str], seconds: float) -> Dict[str, Any]:
    """URL -> {"ok", "status", "why", "seconds"}. A page that is there but not for us (403) is not ok: the package manager gets no more."""
    patience = min(max(seconds, 0.1), LONGEST_S)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies(Reader("/"))))
    wanted = list(dict.fromkeys(urls))[:MOST_URLS]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda url: _ask(opener, url, patience), wanted)
        return {url: answer for url, answer in zip(wanted, answers)}  # noqa: B905, C416  Python 3.9 has no strict


def _request(url: str) -> urllib.request.Request:
    """GET of the first bytes, not HEAD: some mirrors refuse HEAD. A name and a password in the URL go as package managers send them."""
    request = urllib.request.Request(url, headers={"Range": "bytes=0-%d" % (BYTES - 1), "User-Agent": "burnin"})  # noqa: S310
    parts = urllib.parse.urlsplit(url)
    if parts.username is not None:
        secret = "%s:%s" % (urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))
        request.full_url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        request.add_header("Authorization", "Basic " + base64.b64encode(secret.encode()).decode())
    return request


def _ask(opener: urllib.request.OpenerDirector, url: str, seconds: float) -> Dict[str, Any]:
    begun = time.monotonic()
    status, why = None, ""
    try:
        # Errors of the answer itself (a broken proxy) are OSErrors too.
        with opener.open(_request(url), timeout=seconds) as answer:
            status = getattr(answer, "status", None) or 200  # a file:// has none
            answer.read(BYTES)
    except urllib.error.HTTPError as problem:
        status, why = problem.code, "answered %d %s" % (problem.code, problem.reason)
    except (OSError, ValueError) as problem:
        why = str(getattr(problem, "reason", None) or problem) or type(problem).__name__
    return {"ok": not why, "status": status, "why": why[:200], "seconds": round(time.monotonic() - begun, 2)}


def proxies(reader: Reader) -> Dict[str, str]:
    """scheme -> proxy: the environment's, else apt's, else dnf's."""
    found = urllib.request.getproxies()
    if found:
        return found
    text = reader.run(["apt-config", "dump", "Acquire"]) or ""
    for scheme in ("http", "https"):
        told = re.search(r'^Acquire::%s::Proxy "([^"]+)";' % scheme, text, re.MULTILINE | re.IGNORECASE)
        if told and told.group(1) != "DIRECT":
            found[scheme] = told.group(1)
    if "http" in found:
        found.setdefault("https", found["http"])  # apt's own rule
    return found or _dnf(reader.read_text("/etc/dnf/dnf.conf"))


def _dnf(text: Optional[str]) -> Dict[str, str]:
    told = re.search(r"^\s*proxy\s*=\s*(\S+)", text or "", re.MULTILINE)
    return {"http": told.group(1), "https": told.group(1)} if told and told.group(1) != "_none_" else {}
