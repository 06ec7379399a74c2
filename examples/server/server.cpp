// A server in which all threads wait for one lock, most of the time. Nothing in its code says so at first sight.
//
//     g++ -O2 -g -pthread -fpatchable-function-entry=5 -o server server.cpp
//     mcount trace -- ./server && mcount stats server.mcount
//
// Four threads take orders from a queue. Some orders are bad, which is an exception. Each good one is priced, which takes a
// while and needs no lock, and noted in a ledger, which does: but `Ledger::note` writes a line to a slow disk while it
// holds the lock. `./server 60` serves for a minute, for `mcount top` and `mcount attach`.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shop {

using Clock = std::chrono::steady_clock;

struct Order {
	int number;
	std::string item;
};

// A disk that takes its time.
void write_line(const std::string &line)
{
	static volatile size_t written;
	written = written + line.size();
	std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

class Ledger {
	std::mutex mutex;
	std::map<std::string, long> sold;

public:
	void note(const Order &order, long price)
	{
		std::lock_guard<std::mutex> guard(mutex);
		sold[order.item] += price;
		write_line(order.item + " " + std::to_string(price));
	}
};

Ledger ledger;

Order parse(int number)
{
	if (number % 9 == 8)
		throw std::invalid_argument("order " + std::to_string(number));
	return {number, "item" + std::to_string(number % 7)};
}

long price(const Order &order)
{
	unsigned long sum = order.number;
	for (int i = 0; i < 300000; i++)
		sum = sum * 6364136223846793005 + 1442695040888963407;
	return sum >> 54;
}

void handle_request(int number)
{
	Order order = parse(number);
	ledger.note(order, price(order));
}

void serve(int thread, Clock::time_point end)
{
	int bad = 0;
	for (int number = thread; Clock::now() < end; number += 4) {
		try {
			handle_request(number);
		} catch (const std::invalid_argument &) {
			bad++;
		}
	}
	std::printf("thread %d: %d bad orders\n", thread, bad);
}

} // namespace shop

int main(int count, char **arguments)
{
	auto seconds = std::chrono::duration<double>(count > 1 ? std::atof(arguments[1]) : 0.5);
	auto end = shop::Clock::now() + std::chrono::duration_cast<shop::Clock::duration>(seconds);
	std::vector<std::thread> threads;
	for (int thread = 0; thread < 4; thread++)
		threads.emplace_back(shop::serve, thread, end);
	for (auto &thread : threads)
		thread.join();
}
