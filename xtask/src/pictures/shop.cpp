// A shop for the pictures of the book: three workers serve, a logger writes, and all sleep most of the time. It's compiled
// three times, as two libraries and the program.
#include <chrono>
#include <string>
#include <thread>
#include <vector>
#include <pthread.h>
#define APART __attribute__((noinline))

static inline void spin(int rounds)
{
    for (volatile int i = 0; i < rounds * 20000; i = i + 1) {}
}
static inline void nap(int milliseconds)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

namespace text {
APART void escape(int size);
APART void render(int size);
}
namespace store {
APART void lookup(int key);
APART void load(int key);
APART void commit(int entries);
}

#if defined TEXT
void text::escape(int size) { spin(size); }
void text::render(int size) { escape(size); spin(size / 6); }
#elif defined STORE
void store::lookup(int key) { spin(8 + key % 3); }
void store::load(int key) { lookup(key); spin(1); }
void store::commit(int entries) { spin(entries); }
#else
namespace shop {
APART void parse(int size) { spin(size); }
APART void handle_request(int number)
{
    parse(3);
    store::load(number);
    text::render(6 + number % 7);
}
APART void serve(int first)
{
    for (int i = 0; i < 5; i++)
        handle_request(first * 3 + i);
}
APART void write_log(int entries) { spin(2); store::commit(entries); spin(entries / 2); }

static void work(int number)
{
    pthread_setname_np(pthread_self(), ("worker " + std::to_string(number)).c_str());
    for (int i = 0; i < 10; i++) {
        nap(11 + 7 * number);
        serve(i + number);
    }
}
}

int main()
{
    std::vector<std::thread> threads;
    for (int number = 1; number <= 3; number++)
        threads.emplace_back(shop::work, number);
    threads.emplace_back([] {
        pthread_setname_np(pthread_self(), "logger");
        for (int i = 0; i < 12; i++) {
            nap(18);
            shop::write_log(8);
        }
    });
    for (auto &thread : threads)
        thread.join();
}
#endif
