// SPDX-License-Identifier: MIT
#include "core/render/c_like/block_writer.h"

#include <algorithm>

namespace uopd::render {

using ir::Op;
using ir::UOp;

namespace {

UOp GateOf(UOp index) { return index.n_src() == 3 ? index.src(2) : UOp(); }

}  // namespace

void BlockWriter::Begin() {
  kernel_ = BlockKernel::Of(request_.linear, request_.buffers);
  // A launch of many blocks, each of them too short to poll in its loops.
  if (request_.linear.tag() != 0) Poll();
}

std::string BlockWriter::Module(const std::string& body) {
  std::string parameters;
  size_t number = 0;
  for (size_t slot = 0; slot < kernel_.slots.size(); ++slot, ++number) {
    const UOp p = kernel_.slots[slot];
    const bool is_read = p && kernel_.IsOnlyRead(p);
    Append(parameters, "    ", global_space(), is_read ? "const " : "",
           p ? MemoryType(p.dtype()) : std::string_view("uint8_t"), " *", restrict_word(), " b",
           slot, ParameterSuffix(number), ",\n");
  }
  for (size_t i = 0; i < variables_.size(); ++i, ++number)
    Append(parameters, "    ", VariableParameter(i), ParameterSuffix(number), ",\n");
  Append(parameters, "    ", global_space(), "const volatile int32_t *stop",
         ParameterSuffix(number), extra_parameters());
  for (size_t i = 0; i < kernel_.maps.size(); ++i)
    Append(parameters, ",\n    ", map_type(), " map", i);
  return Cat(Prelude(body), "\n", FunctionHead(), request_.name, "(\n", parameters, ") {\n",
             shared_.bytes() > 0 ? Cat("  ", SharedArrays(shared_.bytes()), "\n") : std::string(),
             polls_together_ ? Cat("  ", shared_word(), "\n") : std::string(), body, "}\n");
}

std::string BlockWriter::UsedParts(std::span<const Part> parts, const std::string& body) {
  std::string out;
  for (const Part& part : parts) {
    bool used = part.uses.empty();
    for (std::string_view rest = part.uses; !rest.empty() && !used;) {
      const size_t space = std::min(rest.find(' '), rest.size());
      used = body.find(rest.substr(0, space)) != std::string::npos;
      rest.remove_prefix(std::min(space + 1, rest.size()));
    }
    if (used) out += part.text;
  }
  return out;
}

void BlockWriter::Poll() {
  if (!kernel_.together) return Put("if (*stop != 0) return;");
  PollTogether();
}

void BlockWriter::PollTogether() {
  polls_together_ = true;
  Put("if (", ThreadNumber(0), " == 0) stop_seen = *stop;");
  Put(barrier());
  Put("if (stop_seen != 0) return;");
  Put(barrier());  // before the word is written again
}

absl::Status BlockWriter::OwnLine(UOp u) {
  switch (u.op()) {
    case Op::PARAM:
      if (SpellingOf(u.dtype()) == nullptr) return NoRendering(u);
      SetName(u, Cat("b", u.slot()));
      return absl::OkStatus();
    case Op::BUFFER:
      return Array(u);
    case Op::SPECIAL:
      return Special(u);
    case Op::INDEX:
      SetName(u, Cat(NameOf(u.src(0)), " + ", Value(u.src(1))));
      return absl::OkStatus();
    case Op::LOAD:
      Load(u);
      return absl::OkStatus();
    case Op::STORE:
      Store(u);
      return absl::OkStatus();
    case Op::BARRIER:
      Put(barrier());
      return absl::OkStatus();
    case Op::SHUFFLE:
      return Shuffle(u);
    case Op::MMA:
      return MatrixProduct(u);
    case Op::ASYNC_COPY:
    case Op::ASYNC_COMMIT:
    case Op::ASYNC_WAIT:
      return Async(u);
    case Op::BULK_INIT:
    case Op::BULK_EXPECT:
    case Op::BULK_COPY:
    case Op::BULK_WAIT:
    case Op::BULK_ARRIVE:
      return Bulk(u);
    case Op::ROLE:
      return BeginRole(u);
    case Op::ROLE_END:
      if (kernel_.RoleOf(u.src(0)).active < kernel_.RoleOf(u.src(0)).count) Close();
      Close();
      return absl::OkStatus();
    case Op::GROUP_MMA:
    case Op::MMA_BEGIN:
    case Op::MMA_COMMIT:
    case Op::MMA_WAIT:
    case Op::SHARED_FENCE:
      return Group(u);
    case Op::MATRIX_LOAD:
      return MatrixLoad(u);
    default:
      return NoRendering(u);
  }
}

std::string BlockWriter::SharedPlace(UOp index) const {
  UOp array = index.src(0);
  while (array.Is(Op::AFTER)) array = array.src(0);
  return Cat(places_.at(array.slot()), " + ", ir::ByteSize(array.dtype()), " * (",
             Value(index.src(1)), ")");
}

absl::Status BlockWriter::Array(UOp u) {
  if (SpellingOf(u.dtype()) == nullptr) return NoRendering(u);
  SetName(u, Cat("acc", u.slot()));
  const std::string_view type = MemoryType(u.dtype());
  if (IsShared(u)) {
    const int64_t place = places_[u.slot()] = shared_.Place(ctx_, u);
    Put(shared_space(), type, " *const acc", u.slot(), " = (", shared_space(), type,
        " *)(shared + ", place, ");");
    return absl::OkStatus();
  }
  if (!IsRegister(u)) return NoRendering(u);
  Put(type, " acc", u.slot(), "[", (*ctx_.ShapeOf(u))[0].const_int(), "];");
  return absl::OkStatus();
}

absl::Status BlockWriter::Special(UOp u) {
  const auto axis = static_cast<ir::AxisType>(u.ints()[0]);
  if (axis != ir::AxisType::GLOBAL && axis != ir::AxisType::LOCAL) return NoRendering(u);
  const int64_t dimension = u.ints()[1];
  Define(u, [&](const std::string&) {
    return Cat("(", Type(u.dtype()), ")",
               axis == ir::AxisType::GLOBAL ? BlockNumber(dimension) : ThreadNumber(dimension));
  });
  return absl::OkStatus();
}

// The roles are the branches of one choice.
absl::Status BlockWriter::BeginRole(UOp u) {
  const ir::WarpRole& role = kernel_.RoleOf(u);
  const std::string thread = Value(u.src(0));
  std::string test =
      Cat(thread, " >= ", role.first, " && ", thread, " < ", role.first + role.count);
  if (role.first == 0) test = Cat(thread, " < ", role.first + role.count);
  if (role.first + role.count == threads()) test = Cat(thread, " >= ", role.first);
  const std::string_view otherwise = &role == kernel_.roles.data() ? "" : "else ";
  Open(kernel_.IsLast(role) && !otherwise.empty() ? "else" : Cat(otherwise, "if (", test, ")"));
  if (role.registers > 0) UOPD_TRY(SetRegisters(role));
  if (role.active < role.count) Open(Cat("if (", thread, " < ", role.first + role.active, ")"));
  return absl::OkStatus();
}

absl::Status BlockWriter::Shuffle(UOp u) {
  absl::Status status;
  Define(u, [&](const std::string& lane) {
    auto text = Shuffled(u, Value(u.src(0), lane), u.arg().AsInt());
    if (text.ok()) return *std::move(text);
    status = text.status();
    return std::string();
  });
  return status;
}

absl::Status BlockWriter::MatrixProduct(UOp u) {
  const ir::Mma mma = ir::Mma::Of(u);
  for (const MatrixInstruction& i : request_.target.matrix_instructions) {
    if (i.of_warp() && i.m == mma.m && i.n == mma.n && i.k == mma.k &&
        static_cast<int64_t>(i.a) == mma.a && static_cast<int64_t>(i.b) == mma.b) {
      return Mma(u, i);
    }
  }
  return absl::UnimplementedError("the target has no such matrix instruction");
}

std::string_view BlockWriter::SpaceOf(UOp index) const {
  const UOp base = ir::MaybeBaseOf(index.src(0));
  return base.Is(Op::PARAM) ? global_space() : IsShared(base) ? shared_space() : "";
}

int64_t BlockWriter::WideLanes(UOp index) {
  const int64_t lanes = render::WideLanes(index, kWideBytes, alignment_);
  return WideType(index.dtype(), lanes).empty() ? 1 : lanes;
}

std::string BlockWriter::Place(UOp index, int64_t lane) const {
  return lane == 0 ? Cat("*(", NameOf(index), ")") : Cat("*(", NameOf(index), " + ", lane, ")");
}

std::string BlockWriter::WidePlace(UOp index, const std::string& type, int64_t lane) const {
  const UOp base = ir::MaybeBaseOf(index.src(0));
  const bool is_read = kernel_.IsOnlyRead(base);
  return Cat("*(", SpaceOf(index), is_read ? "const " : "", type, " *)(", NameOf(index), " + ",
             lane, ")");
}

void BlockWriter::Load(UOp u) {
  const UOp index = u.src(0), gate = GateOf(index);
  const int64_t n = index.arg().AsInt(), wide = WideLanes(index);
  const bool gate_per_lane = gate && Lanes(ctx_, gate) > 0;
  const std::string name = Fresh(u);
  const std::string_view type = Type(u.dtype());
  if (wide == 1 || gate_per_lane) {
    for (int64_t i = 0; i < std::max<int64_t>(n, 1); ++i) {
      const std::string lane = Cat(i), value = n == 0 ? name : Cat(name, "_", lane);
      if (!gate || !loads_without_branches()) {
        Put("const ", type, " ", value, " = ",
            gate ? Cat(Value(gate, lane), " ? ", Place(index, i), " : 0") : Place(index, i), ";");
        continue;
      }
      // Element 0, which every array has, in place of what the gate forbids.
      Put("const ", type, " ", value, "_any = *(", NameOf(index.src(0)), " + (", Value(gate, lane),
          " ? ", Value(index.src(1)), i == 0 ? "" : Cat(" + ", i), " : 0));");
      Put("const ", type, " ", value, " = ", Value(gate, lane), " ? ", value, "_any : 0;");
    }
    return;
  }
  const std::string wide_type = WideType(u.dtype(), wide);
  for (int64_t i = 0; i < n; i += wide) {
    const std::string part = Cat(name, "w", i);
    if (gate) {
      Put(wide_type, " ", part, ";");
      for (int64_t lane = 0; lane < wide; ++lane) Put(WideLane(part, lane), " = 0;");
      Put("if (", Value(gate), ") ", part, " = ", WidePlace(index, wide_type, i), ";");
    } else {
      Put("const ", wide_type, " ", part, " = ", WidePlace(index, wide_type, i), ";");
    }
    for (int64_t lane = 0; lane < wide; ++lane)
      Put("const ", type, " ", name, "_", i + lane, " = ", WideLane(part, lane), ";");
  }
}

void BlockWriter::Store(UOp u) {
  const UOp index = u.src(0), gate = GateOf(index), value = u.src(1);
  const int64_t n = index.arg().AsInt(), wide = WideLanes(index);
  const bool gate_per_lane = gate && Lanes(ctx_, gate) > 0;
  if (wide == 1 || gate_per_lane) {
    for (int64_t i = 0; i < std::max<int64_t>(n, 1); ++i)
      Put(gate ? Cat("if (", Value(gate, Cat(i)), ") ") : std::string(), Place(index, i), " = ",
          Value(value, Cat(i)), ";");
    return;
  }
  const std::string wide_type = WideType(index.dtype(), wide);
  if (gate) {
    Open(Cat("if (", Value(gate), ")"));
  } else {
    Open("");
  }
  for (int64_t i = 0; i < n; i += wide) {
    const std::string part = Cat("w", i);
    Put(wide_type, " ", part, ";");
    for (int64_t lane = 0; lane < wide; ++lane)
      Put(WideLane(part, lane), " = ", Value(value, Cat(i + lane)), ";");
    Put(WidePlace(index, wide_type, i), " = ", part, ";");
  }
  Close();
}

}  // namespace uopd::render
