// The cores of a machine meeting at a barrier.
//
// A core that waits spins for some microseconds, then sleeps: the program that uses the machine has threads of its
// own on the same processors.
#pragma once

#include <atomic>
#include <cstdint>

namespace ftm {

// Waits until `word` is no longer `seen`: by spinning, then asleep.
void wait_while(const std::atomic<uint32_t>& word, uint32_t seen);
// Wakes all who sleep on `word`.
void wake_all(const std::atomic<uint32_t>& word);

class Team {
public:
    explicit Team(uint32_t size) : size_(size) {}

    // False when the run was given up.
    bool meet() {
        const uint32_t round = round_.load(std::memory_order_acquire);
        if (given_up_.load(std::memory_order_acquire)) return false;
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
            arrived_.store(0, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            if (size_ > 1) wake_all(round_);
        } else {
            wait_while(round_, round);
        }
        return !given_up_.load(std::memory_order_acquire);
    }

    // Lets everyone go who waits or will wait.
    void give_up() {
        given_up_.store(true, std::memory_order_release);
        round_.fetch_add(1, std::memory_order_acq_rel);
        wake_all(round_);
    }

    // Between two runs.
    void reset() {
        arrived_.store(0);
        given_up_.store(false);
    }

private:
    const uint32_t size_;
    std::atomic<uint32_t> arrived_{0};
    std::atomic<uint32_t> round_{0};
    std::atomic<bool> given_up_{false};
};

}  // namespace ftm
