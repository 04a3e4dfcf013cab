"""Checks the tree against the layer table of docs/architecture.md: who includes whom, and what lies at the top."""
import pathlib
import re
import subprocess
import sys

TOP = {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "proto", "server", "client", "core", "devices",
       "cache", "deploy", "tests", "docs"}

# Layer -> the layers it may use. Using is transitive, and a layer may use itself.
USES = {
    "core/base": [],
    "core/ir": ["core/base"],
    "core/rewrite": ["core/ir"],
    "core/rules": ["core/rewrite"],
    "core/schedule": ["core/rules"],
    "core/codegen": ["core/rules"],
    "core/render": ["core/ir"],
    "core/interp": ["core/ir"],
    "core/search": ["core/codegen", "core/render"],
    "core/tools": ["core/search", "core/schedule"],
    "devices/api": ["core/base"],
    "devices/dl": ["core/base"],
    "devices/llvm_ir": ["core/base"],
    "devices/gpu": ["devices/api", "devices/dl"],  # what the drivers of NVIDIA and AMD share
    "devices/interp": ["devices/api", "core/interp"],
    "devices": ["devices/gpu", "devices/llvm_ir", "devices/interp"],  # every other driver, and the registry
    "cache": ["core/base"],
    "cache/reapi": ["cache", "proto"],  # a shared server that speaks gRPC
    "proto": [],
    "server/engine/usage": ["core/base"],
    "server/engine/base": ["server/engine/usage", "core/search", "devices", "cache"],
    "server/engine/session": ["server/engine/base"],
    "server/engine/content": ["server/engine/session"],
    "server/engine/tune": ["server/engine/base", "server/worker"],
    "server/engine/compile": ["server/engine/tune", "core/schedule"],
    "server/engine/report": ["server/engine/compile"],
    "server/engine/run": ["server/engine/report", "server/engine/session"],
    "server/engine/kept": ["server/engine/run", "server/engine/content"],
    "server/engine/operate": ["server/engine/compile"],
    "server/engine": ["server/engine/kept", "server/engine/operate"],
    "server/worker": ["devices", "core/search", "core/schedule"],
    "server/net": ["core/base"],  # what faces clients and needs neither gRPC nor the engine
    "server/rpc": ["server/engine", "server/net", "proto"],
    "server/http": ["server/net"],  # told what to show by main; it could use the engine and need not
    "server": ["server/net", "cache/reapi", "server/engine", "server/rpc", "server/http", "server/worker"],
    "client": ["proto", "core/ir", "core/rules"],
}
# Third-party headers -> the only layers that may include them. core may include Abseil alone; see check().
ONLY = {
    r"(llvm|llvm-c|lld)/": ["devices/llvm_ir", "devices/cpu", "devices/hip"],
    r"(grpc|grpcpp|grpc\+\+)/": ["server/rpc", "client", "proto", "cache/reapi"],
    r"sqlite3\.h": ["cache"],
    r"openssl/": ["cache"],
    r"prometheus/": ["server/http"],
    r"curl/": ["client/s3", "client/cli"],
}
# What core takes from the C and C++ libraries: headers without .h, and these.
SYSTEM = re.compile(r"^([a-z0-9_]+|sys/[a-z_]+\.h|linux/[a-z_]+\.h|[a-z]*intrin\.h|"
                    r"(dlfcn|errno|fcntl|math|poll|pthread|sched|signal|stdint|stdio|stdlib|string|unistd)\.h)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def layer_of(path):
    """The longest entry of USES that holds `path`; a driver's folder counts as "devices"."""
    parts = path.split("/")[:-1]
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in USES:
            return "/".join(parts[:n])
    return None


def reach(layer):
    seen, todo = set(), [layer]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += USES[one]
    return seen


def check(path, text):
    """The complaints about one source file."""
    layer, out = layer_of(path), []
    if layer is None:
        return [f"{path}: belongs to no layer"]
    for bracket, name in INCLUDE.findall(text):
        # Generated protocol code is included from the root of the build: "uopd/v1/graph.pb.h".
        # The client's public headers are included as users of the library do: "uopd/tensor.h".
        target = "proto" if name.endswith(".pb.h") else "client" if name.startswith("uopd/") else layer_of(name)
        if target is not None:
            if target not in reach(layer):
                out.append(f"{path}: {layer} may not include {name}")
            elif target.startswith("devices") and layer == "devices" and path.count("/") > 1 and (
                    name.split("/")[1] not in (path.split("/")[1], "api", "dl", "gpu", "llvm_ir")):
                out.append(f"{path}: one driver may not include {name} of another")
            continue
        if layer.startswith("core/") and not name.startswith("absl/") and not SYSTEM.match(name):
            out.append(f"{path}: core may not include {name}; it builds with Abseil alone")
        for pattern, allowed in ONLY.items():
            if re.match(pattern, name) and not any(path.startswith(a + "/") for a in allowed):
                out.append(f"{path}: {name} belongs to {', '.join(allowed)}")
    return out


def check_order(path, text):
    """Includes stand in this order: the file's own header, then <...>, then "..."."""
    project = False
    for number, (bracket, name) in enumerate(INCLUDE.findall(text)):
        if bracket == '"' and number > 0:
            project = True
        elif bracket == "<" and project and not name.startswith("sanitizer/"):  # that stands behind a condition
            return [f"{path}: <{name}> stands behind headers of the project"]
    return []


def check_head(path, text):
    """A source begins with the line of its licence, and nothing else is on that line."""
    return [] if text.startswith("// SPDX-License-Identifier: MIT\n") else [f"{path}: the first line is not the licence's"]


USING = re.compile(r"^\s*using (?:[\w:]*::)(\w+);", re.MULTILINE)


def check_usings(path, text):
    """A source uses each name that a using-declaration brings in. In a unity build no compiler can tell."""
    text = re.sub(r"//.*", "", text)
    return [f"{path}: `using` of {name}, which the file does not use" for name in USING.findall(text)
            if len(re.findall(rf"\b{name}\b", text)) < 2]


def main(root):
    files = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    complaints = [f"{top}: not a name of the top level" for top in sorted({f.split("/")[0] for f in files})
                  if top not in TOP and not top.startswith(".")]
    checked = 0
    for file in files:
        path = pathlib.Path(root, file)
        if file.endswith((".h", ".cc")) and path.is_file():
            complaints += check_head(file, path.read_text()) + check_order(file, path.read_text())
        if file.endswith(".cc") and path.is_file():
            complaints += check_usings(file, path.read_text())
        if file.endswith((".h", ".cc", ".def")) and not file.startswith(("tests/", "docs/")) and path.is_file():
            complaints += check(file, path.read_text())
            checked += 1
    print("\n".join(complaints) or f"{checked} files respect the layers")
    return 1 if complaints or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
