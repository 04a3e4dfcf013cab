// SPDX-License-Identifier: MIT
// Lets ThreadSanitizer see how the distribution's gRPC orders its threads.
//
// The distribution's gRPC and Abseil are not instrumented. ThreadSanitizer does not see the locks
// that order the callbacks of a call, and would report every object that goes from one callback to
// the next. The functions here stand before those of the libraries (an executable's symbols come
// first), tell ThreadSanitizer of the order that the function gives, and call the library's.
//
// Linked into programs of the preset tsan that use gRPC.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpcpp/support/server_callback.h>
#include <link.h>

#include <atomic>

#include "absl/synchronization/mutex.h"

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);

namespace {

// The library's function: the next of this name after the executable's.
template <class F>
F Library(const char* symbol) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, symbol));
}

using OnMutex = void (*)(absl::Mutex*);

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto library = Library<OnMutex>("_ZN4absl7debian35Mutex4LockEv");
  library(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static const auto library = Library<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = library(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static const auto library = Library<OnMutex>("_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  library(this);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto library =
      Library<void (*)(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  library(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto library = Library<bool (*)(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool timed_out = library(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto library = Library<bool (*)(CondVar*, Mutex*, Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool timed_out = library(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

ABSL_NAMESPACE_END
}  // namespace absl

// A reactor is told that its call was cancelled when two conditions hold: the handler has returned
// the reactor, and the call was cancelled. Each counts on_cancel_conditions_remaining_ down. Where
// the library counts last, ThreadSanitizer does not see that the handler's work, which counted in
// instrumented code, comes first.
//
// OnCancel() counts as one of callbacks_outstanding_, and OnDone() follows the last of them.
// ThreadSanitizer does not see that OnCancel() comes before OnDone() if another thread counts last.
namespace grpc::internal {
namespace {

class OrderedCancel final : public ServerReactor {
 public:
  OrderedCancel(ServerReactor* reactor, void* conditions, void* outstanding)
      : reactor_(reactor), conditions_(conditions), outstanding_(outstanding) {}
  void OnDone() override {}
  bool InternalInlineable() override { return reactor_->InternalInlineable(); }
  void OnCancel() override {
    __tsan_acquire(conditions_);
    reactor_->OnCancel();
    __tsan_release(outstanding_);
    delete this;  // the library does not use a reactor after this call
  }

 private:
  ServerReactor* const reactor_;
  void *const conditions_, *const outstanding_;
};

}  // namespace

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  using OnCall = void (*)(ServerCallbackCall*, ServerReactor*);
  static const auto library =
      Library<OnCall>("_ZN4grpc8internal18ServerCallbackCall12CallOnCancelEPNS0_13ServerReactorE");
  library(this,
          new OrderedCancel(reactor, &on_cancel_conditions_remaining_, &callbacks_outstanding_));
}

}  // namespace grpc::internal

// A batch of operations: what a thread did before it started the batch is seen by whoever is told
// of its end. The library orders the two by atomic operations. It tells of the end through the tag:
// a callback, or an address that a completion queue returns.
namespace {

bool IsCode(const void* address) {
  struct Search {
    uintptr_t address;
    bool found;
  } search = {reinterpret_cast<uintptr_t>(address), false};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto* search = static_cast<Search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
          const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
          if (search->address - begin < segment.p_memsz) search->found = true;
        }
        return search->found ? 1 : 0;
      },
      &search);
  return search.found;
}

using Callback = void (*)(grpc_completion_queue_functor*, int);
// All callbacks of this gRPC are one function, which finds its object by the functor.
std::atomic<Callback> callback = nullptr;

void AcquireAndCall(grpc_completion_queue_functor* functor, int ok) {
  __tsan_acquire(functor);
  callback.load(std::memory_order_relaxed)(functor, ok);
}

void Release(void* tag) {
  if (tag == nullptr) return;
  auto* functor = static_cast<grpc_completion_queue_functor*>(tag);
  const Callback run = functor->functor_run;
  if (run != AcquireAndCall && IsCode(reinterpret_cast<const void*>(run))) {
    Callback known = nullptr;
    if (callback.compare_exchange_strong(known, run) || known == run)
      functor->functor_run = AcquireAndCall;
  }
  __tsan_release(tag);
}

}  // namespace

extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count,
                                                 void* tag, void* reserved) {
  static const auto library = Library<decltype(&grpc_call_start_batch)>("grpc_call_start_batch");
  Release(tag);
  return library(call, ops, count, tag, reserved);
}

extern "C" grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                                  gpr_timespec deadline, void* reserved) {
  static const auto library =
      Library<decltype(&grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = library(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(tag);
  return event;
}

extern "C" grpc_event grpc_completion_queue_next(grpc_completion_queue* queue,
                                                 gpr_timespec deadline, void* reserved) {
  static const auto library =
      Library<decltype(&grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = library(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}
