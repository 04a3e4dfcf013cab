"""Shows that check_additions.py complains about what it must, and about nothing else."""
import pathlib
import tempfile
import unittest

import check_additions

TREE = {
    "core/codegen/opts/opt.h": "enum class OptKind : uint8_t {\n  kWide,\n  kLast\n};\n",
    "core/codegen/opts/kinds/wide.cc": "const OptRow kRow = {.kind = OptKind::kWide};\n",
    "core/codegen/cpu/heuristic/choose.cc": "Add({OptKind::kWide});\n",
    "core/codegen/pass_table.cc": '    {"fold", kAll, kKernel, kKernel, "codegen/passes/fold.cc",\n'
                                  '     "folds", [](Work& w) { return Made(w, Fold(w.ctx, w.root)); }},\n',
    "core/codegen/passes/fold.cc": "UOp Fold(UOpContext& ctx, UOp root) {}\n",
    "core/codegen/passes/fold.h": "UOp Fold(UOpContext& ctx, UOp root);\n",
    "core/base/telemetry/metrics.def": 'UOPD_METRIC(Gauge, Ready, "ready", None(), kNoBuckets, "help")\n',
    "proto/methods.def": "UOPD_QUERY(GetStatus, Operator)\n",
    "proto/uopd.proto": "rpc GetStatus(GetStatusRequest) returns (GetStatusResponse);\n",
    "server/rpc/queries.cc": "UOPD_ANSWERS(GetStatus) metrics::Ready();\n",
    "devices/registry.cc": '#include "devices/chip/chip_device.h"\n',
    "devices/chip/chip_device.h": "",
    "devices/chip/chip_device.cc": '#include "devices/chip/chip_device.h"\n',
}


class AdditionsTest(unittest.TestCase):
    def found(self, **changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**TREE, **changes}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(check_additions.check(root))

    def test_the_tree_is_as_promised(self):
        self.assertEqual(self.found(), [])

    def test_an_opt_elsewhere(self):
        self.assertEqual(self.found(**{"core/render/text.cc": "case OptKind::kWide:\n"}),
                         ["core/render/text.cc names the opt kWide"])

    def test_an_opt_with_two_rows(self):
        self.assertEqual(self.found(**{"core/codegen/opts/kinds/other.cc": "{.kind = OptKind::kWide}"}),
                         ["the opt kWide has rows in other.cc, wide.cc"])

    def test_a_pass_that_others_run(self):
        self.assertEqual(self.found(**{"core/search/moves.cc": "x = Fold(ctx, x);\n"}),
                         ["core/search/moves.cc runs the pass Fold"])

    def test_an_rpc_in_many_files(self):
        many = {f"client/cli/{i}.cc": "connection.GetStatus(request)\n" for i in range(5)}
        self.assertEqual(len(self.found(**many)), 1)
        many.popitem()
        self.assertEqual(self.found(**many), [])

    def test_the_name_of_a_metric(self):
        self.assertEqual(self.found(**{"server/http/page.cc": 'Print("uopd_ready");\n'}),
                         ["server/http/page.cc says the name of the metric ready"])

    def test_a_device_elsewhere(self):
        self.assertEqual(self.found(**{"server/main.cc": '#include "devices/chip/chip_device.h"\n'}),
                         ["server/main.cc includes the device chip"])


if __name__ == "__main__":
    unittest.main()
