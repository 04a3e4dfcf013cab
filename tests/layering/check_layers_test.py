"""Shows that check_layers.py complains about what it must, and about nothing else."""
import unittest

import check_layers


class LayersTest(unittest.TestCase):
    def complaints(self, path, *names):
        return check_layers.check(path, "".join(f"#include {name}\n" for name in names))

    def test_downward_is_fine(self):
        self.assertEqual(self.complaints("core/rules/divmod.cc", '"core/base/status.h"', '"core/ir/uop.h"', "<vector>",
                                         '"absl/strings/str_cat.h"', "<sys/mman.h>", "<cstdint>"), [])
        self.assertEqual(self.complaints("devices/cpu/jit.cc", '"devices/api/device.h"', "<llvm/IR/Module.h>"), [])
        self.assertEqual(self.complaints("client/cpp/client.cc", "<grpcpp/channel.h>", '"uopd/v1/uopd.grpc.pb.h"',
                                         '"core/rules/gradient.h"'), [])
        self.assertEqual(self.complaints("server/main.cc", '"server/http/http_server.h"', '"server/rpc/service.h"'), [])

    def test_upward_is_refused(self):
        for path, name in [("core/base/telemetry/log.cc", '"core/ir/uop.h"'), ("core/render/c.cc", '"core/codegen/opts.h"'),
                           ("cache/store/blob.cc", '"core/ir/uop.h"'), ("client/cpp/a.cc", '"server/engine/engine.h"'),
                           ("client/cpp/a.cc", '"devices/api/device.h"'), ("devices/api/a.h", '"devices/cpu/cpu.h"'),
                           ("server/engine/a.cc", '"uopd/v1/uopd.pb.h"'), ("devices/cuda/a.cc", '"devices/cpu/b.h"'),
                           ("core/ir/a.h", '"server/http/http_server.h"')]:
            self.assertEqual(len(self.complaints(path, name)), 1, (path, name))

    def test_third_party_headers_stay_at_home(self):
        for path, name in [("devices/cuda/a.cc", "<llvm/IR/Module.h>"), ("server/engine/a.cc", "<grpcpp/server.h>"),
                           ("server/engine/a.cc", "<sqlite3.h>"), ("server/rpc/a.cc", "<prometheus/counter.h>")]:
            self.assertEqual(len(self.complaints(path, name)), 1, (path, name))
        for name in ["<nlohmann/json.hpp>", "<zstd.h>", '"toml++/toml.h"']:
            self.assertEqual(len(self.complaints("core/base/config/config.cc", name)), 1, name)

    def test_includes_have_an_order(self):
        def order(*names):
            return check_layers.check_order("a.cc", "".join(f"#include {name}\n" for name in names))
        self.assertEqual(order('"core/a.h"', "<map>", "<vector>", '"absl/a.h"', '"core/b.h"'), [])
        self.assertEqual(order("<map>", '"core/b.h"'), [])
        self.assertEqual(len(order('"core/a.h"', '"core/b.h"', "<map>")), 1)
        self.assertEqual(len(order("<map>", '"core/b.h"', "<vector>")), 1)

    def test_the_licence_has_the_first_line(self):
        self.assertEqual(check_layers.check_head("a.h", "// SPDX-License-Identifier: MIT\n// A.\n"), [])
        for text in ("// SPDX-License-Identifier: MIT A.\n", "// A.\n", ""):
            self.assertEqual(len(check_layers.check_head("a.h", text)), 1, text)

    def test_using_declarations_are_used(self):
        def unused(text):
            return len(check_layers.check_usings("a.cc", text))
        self.assertEqual(unused("using ir::UOp;\nUOp x;\n"), 0)
        self.assertEqual(unused("using ir::UOp;\nUOpContext x;  // not UOp\n"), 1)
        self.assertEqual(unused("using namespace std::literals;\n"), 0)
        self.assertEqual(unused("  using ::testing::Each;\nusing A = b::C;\n"), 1)

    def test_unknown_folders_are_refused(self):
        self.assertEqual(len(self.complaints("core/extra/a.cc")), 1)


if __name__ == "__main__":
    unittest.main()
